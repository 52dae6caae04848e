"""Planes that grow by whole factors, with drawn sizes, steps and zero points on both sides."""

from __future__ import annotations

from collections.abc import Iterator

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

_DRAWN = 6
_ROUNDED = 8
"""The factor whose shares of affine bytes the vendor rounds, centres on centres."""
_LOOSE = 0.0001
"""Share of elements of it that may differ."""
_PRECISIONS = (Precision.U8, Precision.I8, Precision.I8DFP, Precision.I16)


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:a733"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _grown(seed: int, factor: int, grid: str, *, kept: bool) -> WildCase:
    """Return a linear resize whose ranges are drawn: neither has to do with the other unless they are `kept`."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(size) for size in rng.integers(1, 17, 2))
    graph = _linear((1, 4, rows, columns), (1, 4, rows * factor, columns * factor), grid)
    ranges: dict[str, Range] = {}
    for name in ("x", "y"):
        # One in three has the least byte as its zero point.
        size, share = rng.uniform(1.0, 3.0), max(rng.uniform(-0.5, 1.0), 0.0)
        ranges[name] = Range(-size * share, size * (1.0 - share))
    return WildCase(graph, {**ranges, "y": ranges["x"]} if kept else ranges, seed)


def _linear(before: tuple[int, ...], after: tuple[int, ...], grid: str) -> Graph:
    kinds = {name: TensorType(DType.F32, shape) for name, shape in (("x", before), ("y", after))}
    kinds["sizes"] = TensorType(DType.I64, (4,))
    node = Node(
        "n", "Resize", ("x", "", "", "sizes"), ("y",), {"mode": "linear", "coordinate_transformation_mode": grid}
    )
    return Graph("grown", (node,), ("x",), ("y",), kinds, {"sizes": np.array(after)})


@pytest.mark.parametrize("precision", _PRECISIONS, ids=lambda found: found.value)
@pytest.mark.parametrize("grid", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("factor", [2, 3, 4, 8])
def test_planes_that_grow_by_whole_factors(factor: int, grid: str, precision: Precision, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for drawn in range(seed, seed + _DRAWN):
        found = judge.judge(_grown(drawn, factor, grid, kept=bool(drawn % 2)), precision)
        assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), f"seed {drawn}: {found.reason}"
        if factor == _ROUNDED and grid == "half_pixel":
            assert found.steps.differing <= _LOOSE * found.steps.elements, f"seed {drawn}: {found.steps}"
        elif grid == "align_corners":
            # Halves that are decided otherwise: one element in a million.
            assert found.steps.differing <= 1, f"seed {drawn}: {found.steps}"
            assert found.steps.largest <= 1, f"seed {drawn}: {found.steps}"
        else:
            assert found.outcome is WildOutcome.EQUAL, f"seed {drawn}: {found.steps}"


def test_weights_that_half_precision_holds_as_subnormals_are_zero(judge: SimulatorJudge) -> None:
    """They decide halves: of 3 times the size with corners on corners 3 of 175,176 elements were others with them."""
    cases = [_grown(seed, 3, "align_corners", kept=True) for seed in range(5001, 5051, 2)]
    found = [judge.judge(case, Precision.U8) for case in cases]
    assert sum(item.steps.differing for item in found) == 0
    assert sum(item.steps.elements for item in found) > 100_000


@pytest.mark.parametrize("precision", _PRECISIONS, ids=lambda found: found.value)
def test_planes_of_one_pixel_are_repeated_in_other_steps(precision: Precision, judge: SimulatorJudge) -> None:
    """The vendor's linear shader hands on their integers in fixed point, whatever the steps."""
    for grid, size in (("half_pixel", (3, 3)), ("asymmetric", (2, 5)), ("align_corners", (2, 2))):
        graph = _linear((1, 4, 1, 1), (1, 4, *size), grid)
        found = judge.judge(WildCase(graph, {"x": Range(-2.5, 1.7), "y": Range(-1.5, 1.0)}, 1), precision)
        assert found.outcome is WildOutcome.EQUAL, f"{grid}: {found.steps} {found.reason}"
