"""What follows a product, and planes of bytes of another size, equal the vendor's simulator to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase, measured_ranges
from dovetail.testing.wild.deploying import Finding, WildOutcome

from .conftest import kept_judge

pytestmark = pytest.mark.sdk

Asked = Callable[[WildCase, Precision], Finding]
_RNG = np.random.default_rng(24)
_WEIGHT = _RNG.normal(0.0, 0.5, (8, 4, 3, 3)).astype(np.float32)
_BIAS = _RNG.normal(0.0, 0.3, (8,)).astype(np.float32)


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d"])
def asked(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[Asked]:
    with kept_judge(request.param, vendor) as judge:
        yield judge.judge


def case_of_nodes(
    nodes: list[Node], types: Mapping[str, tuple[int, ...]], constants: Mapping[str, AnyArray], size: float = 1.0
) -> WildCase:
    """Return the case of nodes that read `x`, whose last output is the graph's; values lie within a size of 0."""
    kinds = {name: TensorType(DType.F32, shape) for name, shape in types.items()}
    kinds |= {name: TensorType(DType.of(value.dtype), tuple(value.shape)) for name, value in constants.items()}
    graph = Graph("pair", tuple(nodes), ("x",), nodes[-1].outputs, kinds, constants)
    rng = np.random.default_rng(1)
    samples = [{"x": rng.uniform(-size, size, types["x"]).astype(np.float32)} for _ in range(2)]
    return WildCase(graph, measured_ranges(graph, samples), 1)


def behind_a_convolution(op: str, *constants: AnyArray) -> WildCase:
    """Return the case of an operator behind a convolution of 4 to 8 channels."""
    held = {f"k{index}": value for index, value in enumerate(constants)}
    nodes = [
        Node("first", "Conv", ("x", "w", "b"), ("c",), {"pads": (1, 1, 1, 1)}),
        Node("second", op, ("c", *held), ("y",)),
    ]
    shapes = {"x": (1, 4, 6, 8), "c": (1, 8, 6, 8), "y": (1, 8, 6, 8)}
    return case_of_nodes(nodes, shapes, {"w": _WEIGHT, "b": _BIAS, **held})


@pytest.mark.parametrize("precision", [Precision.I16, Precision.I8DFP, Precision.U8], ids=lambda found: found.value)
@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_a_single_number_is_not_folded_into_a_convolution(op: str, precision: Precision, asked: Asked) -> None:
    found = asked(behind_a_convolution(op, np.array(1.7, np.float32)), precision)
    assert found.outcome is WildOutcome.EQUAL, f"{found.steps} {found.reason}"


def test_sizes_of_unsigned_bytes_behind_a_convolution(asked: Asked) -> None:
    found = asked(behind_a_convolution("Abs"), Precision.U8)
    assert found.outcome is WildOutcome.EQUAL, f"{found.steps} {found.reason}"


@pytest.mark.parametrize("op", ["Abs", "HardSwish", "Neg", "Relu", "Sigmoid"])
@pytest.mark.parametrize("precision", [Precision.I16, Precision.I8DFP], ids=lambda found: found.value)
def test_numbers_beyond_the_floats_of_the_tensor_processor(op: str, precision: Precision, asked: Asked) -> None:
    shape = (1, 3, 8, 9)
    case = case_of_nodes([Node("n", op, ("x",), ("y",))], {"x": shape, "y": shape}, {}, 2e5)
    found = asked(case, precision)
    assert found.outcome is WildOutcome.EQUAL, f"{found.steps} {found.reason}"


def test_numbers_nearer_to_0_than_fixed_point_is_fine(asked: Asked) -> None:
    shape = (1, 3, 8, 9)
    case = case_of_nodes([Node("n", "Relu", ("x",), ("y",))], {"x": shape, "y": shape}, {}, 1e-12)
    found = asked(case, Precision.I16)
    assert found.outcome is WildOutcome.EQUAL, f"{found.steps} {found.reason}"


@pytest.mark.parametrize("grid", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("sizes", [((8, 20), (13, 33)), ((2, 11), (2, 33)), ((8, 9), (16, 18)), ((6, 6), (3, 4))])
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I8], ids=lambda found: found.value)
def test_planes_of_bytes_of_another_size(
    grid: str, sizes: tuple[tuple[int, int], tuple[int, int]], precision: Precision, asked: Asked
) -> None:
    # Of twice the size with corners on corners, or in other steps, some of 100 elements are one step off.
    doubled = sizes[1] == (16, 18)
    before, after = ((1, 3, *size) for size in sizes)
    attributes = {"mode": "linear", "coordinate_transformation_mode": grid}
    node = Node("n", "Resize", ("x", "", "", "sizes"), ("y",), attributes)
    case = case_of_nodes([node], {"x": before, "y": after}, {"sizes": np.array(after)})
    same = {"x": case.ranges["x"], "y": case.ranges["x"]}
    for ranges in (same, case.ranges):
        found = asked(WildCase(case.graph, ranges, 1), precision)
        loose = doubled and (grid == "align_corners" or ranges is not same)
        assert found.steps.largest <= int(loose), found.steps
