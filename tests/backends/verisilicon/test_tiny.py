"""Operators of the vendor's own kernels on bytes whose steps those take for plain integers."""

from __future__ import annotations

from collections.abc import Iterator

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

_SHAPE = (1, 4, 8, 16)
_DRAWN = 4


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:a733"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


def _tiny(op: str, seed: int) -> WildCase:
    """Return an operator whose input goes to some 1e-13 to 1e-4, with a zero point that is drawn."""
    rng = np.random.default_rng(seed)
    size, share = float(10.0 ** rng.uniform(-13.0, -4.0)), float(rng.uniform(0.0, 1.0))
    given = Range(-size * share, size * (1.0 - share))
    ranges, constants = {"x": given}, dict[str, AnyArray]()
    ranges["y"] = Range(-1.0, 1.0)
    if op == "PRelu":
        constants["slope"] = rng.uniform(-0.5, 1.5, (4, 1, 1)).astype(np.float32) * (1e-10 if seed % 4 == 0 else 1.0)
        ranges["slope"] = Range(float(constants["slope"].min()), float(constants["slope"].max()))
        ranges["y"] = Range(-size * 0.7, size)
    if op == "CumSum":
        constants["axis"] = np.array(1)
        ranges["y"] = Range(given.low * 3.0, given.high * 3.0)
    kinds = {name: TensorType(DType.F32, _SHAPE) for name in ("x", "y")}
    for name, value in constants.items():
        kinds[name] = TensorType(DType.I64 if name == "axis" else DType.F32, value.shape)
    node = Node("n", op, ("x", *constants), ("y",))
    return WildCase(Graph("tiny", (node,), ("x",), ("y",), kinds, constants), ranges, seed)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8], ids=lambda found: found.value)
@pytest.mark.parametrize("op", ["CumSum", "PRelu", "Sign"])
def test_bytes_with_tiny_steps(op: str, precision: Precision, judge: SimulatorJudge) -> None:
    seed = draws.seed_here()
    for drawn in range(seed, seed + _DRAWN):
        found = judge.judge(_tiny(op, drawn), precision)
        assert found.outcome is WildOutcome.EQUAL, f"seed {drawn}: {found.outcome} {found.steps} {found.reason}"


def _product(seed: int) -> WildCase:
    """Return a product of two tensors, each of which goes to some 1e-13 to 1."""
    rng = np.random.default_rng(seed)
    rows, inner, columns, planes = (int(number) for number in rng.integers(1, 9, 4))
    sizes, shares = 10.0 ** rng.uniform(-13.0, 0.0, 2), rng.uniform(0.0, 1.0, 2)
    shapes = {"a": (planes, rows, inner), "b": (planes, inner, columns), "y": (planes, rows, columns)}
    ranges = {
        name: Range(-size * share, size * (1.0 - share)) for name, size, share in zip("ab", sizes, shares, strict=True)
    }
    ranges["y"] = Range(-0.5 * float(sizes.prod()) * inner, 0.4 * float(sizes.prod()) * inner)
    kinds = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    node = Node("n", "MatMul", ("a", "b"), ("y",))
    return WildCase(Graph("tiny", (node,), ("a", "b"), ("y",), kinds, {}), ranges, seed)


@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8], ids=lambda found: found.value)
def test_products_of_bytes_with_tiny_steps(precision: Precision, judge: SimulatorJudge) -> None:
    """A shader's product was garbage of steps below 1e-9."""
    seed, differing, elements = draws.seed_here(), 0, 0
    for drawn in range(seed, seed + 3 * _DRAWN):
        found = judge.judge(_product(drawn), precision)
        assert found.outcome in (WildOutcome.EQUAL, WildOutcome.DIFFERS), f"seed {drawn}: {found.reason}"
        assert found.steps.largest <= 1, f"seed {drawn}: {found.steps}"
        differing, elements = differing + found.steps.differing, elements + found.steps.elements
    # Halves of a product go by the order of operations, and the parts have several.
    assert differing <= 0.005 * elements
