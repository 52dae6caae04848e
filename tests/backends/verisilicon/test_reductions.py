"""Means and sums over several axes: what is one axis, what is an operator of its own, and what is between them."""

from __future__ import annotations

import random
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

_DRAWN, _MOST_AXES = 12, 4
_FEW = 0.02
"""Share of the elements of drawn reductions that may differ: means that half precision rounds from a tie."""
_APART = (
    ("ReduceMean", (3, 4, 6, 5), (0, 3)),
    ("ReduceMean", (2, 1, 3, 1), (0, 1, 2)),
    ("ReduceMean", (1, 1, 3, 2), (0, 2, 3)),
    ("ReduceMean", (1, 7, 7, 3, 4), (2, 3, 4)),
    ("ReduceMean", (3, 4, 6, 5), (0, 1)),
    ("ReduceSum", (1, 4, 6, 5), (1, 3)),
    ("ReduceSum", (3, 4, 6, 5), (0, 3)),
    ("ReduceSum", (3, 4, 6, 5), (0, 2, 3)),
    ("ReduceSum", (3, 4, 6, 5), (0, 1)),
)


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:imx8mp", "vsi:rk1808", "vsi:a733"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _reduced(operator: str, shape: tuple[int, ...], axes: tuple[int, ...], seed: int) -> WildCase:
    made = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    kinds = {
        "x": TensorType(DType.F32, shape),
        "y": TensorType(DType.F32, made),
        "a": TensorType(DType.I64, (len(axes),)),
    }
    graph = Graph("reduced", (Node("n", operator, ("x", "a"), ("y",)),), ("x",), ("y",), kinds, {"a": np.array(axes)})
    count = int(np.prod([shape[axis] for axis in axes]))
    most = 4.0 if operator == "ReduceMean" else 2.0 * count**0.5
    return WildCase(graph, {"x": Range(-4.0, 3.0), "y": Range(-most, most)}, seed)


@pytest.mark.parametrize(("operator", "shape", "axes"), _APART)
def test_half_precision_lies_between_the_operators_of_a_reduction(
    operator: str, shape: tuple[int, ...], axes: tuple[int, ...], judge: SimulatorJudge
) -> None:
    found = judge.judge(_reduced(operator, shape, axes, 3), Precision.I16)
    assert found.outcome is WildOutcome.EQUAL, f"{found.steps} {found.reason}"


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I16], ids=lambda found: found.value)
def test_every_sample_has_the_mean_of_its_row(precision: Precision, judge: SimulatorJudge) -> None:
    """Newer compilers take the first sample's alone where a row fills no window."""
    rng = random.Random(draws.seed_here())
    for width in (17, 34, rng.choice((19, 23, 29, 31, 37, 62, 97)), rng.randint(16, 130)):
        case = _reduced("ReduceMean", (rng.randint(2, 4), 1, width), (2,), rng.randrange(1 << 30))
        found = judge.judge(case, precision)
        said = f"{case.seed}, {width}: {found.steps} {found.reason}"
        assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), said
        # One mean may lie at a tie.
        assert found.steps.differing <= 1 >= found.steps.largest, said


@pytest.mark.parametrize("precision", [Precision.I16, Precision.I8DFP], ids=lambda found: found.value)
def test_drawn_reductions_hardly_differ(precision: Precision, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    rng, differing, elements = random.Random(seed), 0, 0
    for drawn in range(_DRAWN):
        shape = tuple(rng.choice((1, 1, 2, 3, 4, 5, 8)) for _ in range(rng.choice((2, 3, 4, 4, 5, 6))))
        axes = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, min(4, len(shape))))))
        case = _reduced(rng.choice(("ReduceMean", "ReduceSum")), shape, axes, seed + drawn)
        found = judge.judge(case, precision)
        known = {WildOutcome.EQUAL, WildOutcome.DIFFERS}
        if len(shape) > _MOST_AXES or precision is Precision.I8DFP:
            # Some means are refused there.
            known.add(WildOutcome.REFUSED)
        assert found.outcome in known, f"{shape} {axes}: {found.outcome.value} {found.reason}"
        assert found.steps.largest <= 1, f"{seed + drawn} {shape} {axes}: {found.steps}"
        differing, elements = differing + found.steps.differing, elements + found.steps.elements
    assert elements
    assert differing <= max(1, _FEW * elements), f"seed {seed}: {differing} of {elements}"


@pytest.mark.parametrize(
    ("shape", "axes", "outcome"),
    [
        ((2, 3, 4, 5, 6), (2, 4), WildOutcome.REFUSED),
        ((2, 2, 3, 2, 3, 2), (2, 4, 5), WildOutcome.REFUSED),
        ((2, 2, 3, 2, 3, 2), (1, 3, 4, 5), WildOutcome.EQUAL),
        ((2, 3, 4, 5, 6), (1, 3), WildOutcome.EQUAL),
    ],
)
def test_means_that_end_the_compiler_are_refused(
    shape: tuple[int, ...], axes: tuple[int, ...], outcome: WildOutcome, judge: SimulatorJudge
) -> None:
    """Of the last axis and the one before the last but one: with neighbours among them seen as one."""
    assert judge.judge(_reduced("ReduceMean", shape, axes, 7), Precision.I16).outcome is outcome


def test_means_that_are_divided_by_another_number_are_refused(judge: SimulatorJudge) -> None:
    """Along axes that are not neighbours the vendor's kernel divides the sums of bytes by the next multiple of 64."""
    outcomes = [
        judge.judge(_reduced("ReduceMean", shape, axes, 5), Precision.I8DFP).outcome
        for shape, axes in (
            ((1, 5, 2, 13), (1, 3)),
            ((1, 3, 4, 2, 6), (1, 3, 4)),
            ((1, 8, 2, 8), (1, 3)),
            ((1, 16, 2, 8), (1, 3)),
        )
    ]
    assert outcomes == [WildOutcome.REFUSED] * 2 + [WildOutcome.EQUAL] * 2
