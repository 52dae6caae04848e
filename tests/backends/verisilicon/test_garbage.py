"""What the vendor's simulator was seen to get wrong is refused in the verdict, or lowered to what it gets right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.backend.protocols import Signature
from dovetail.backends.reference import run_graph
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.generation import OLDEST
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.testing.networks import Network

from .conftest import target_named

PARTS = ("vsi:a311d", "vsi:imx8mp", "vsi:v853", "vsi:a733")


def _reason(graph: Graph, target: str, precision: Precision) -> str:
    return target_named(target).verdict(graph, graph.nodes[0], precision).reason


def _normalised(width: int) -> Graph:
    net = Network()
    return net.graph(net.op("LayerNormalization", net.input("x", 2, 5, width), net.uniform(width), net.uniform(width)))


@pytest.mark.parametrize("target", PARTS)
@pytest.mark.parametrize("width", [8, 17, 24, 100])
def test_bytes_are_normalised_in_rows_of_16(width: int, target: str) -> None:
    assert f"rows of {width} bytes" in _reason(_normalised(width), target, Precision.U8)
    assert _reason(_normalised(width), target, Precision.I16) == ""
    assert _reason(_normalised(16 * width), target, Precision.U8) == ""


@pytest.mark.parametrize("target", PARTS)
def test_the_batch_is_not_padded_with_copies(target: str) -> None:
    net = Network()
    data, widths = net.input("x", 2, 3, 4, 4), net.constant([1, 0, 0, 0, 0, 0, 0, 0])
    graph = net.graph(net.op("Pad", data, widths, shape=(3, 3, 4, 4), mode="edge"))
    assert "mode='edge' along the batch" in _reason(graph, target, Precision.I8PC)


def test_a_sparse_depthwise_convolution_is_refused_where_it_was_seen_to_fail() -> None:
    net = Network()
    attributes = {"group": 4, "dilations": (5, 5), "strides": (2, 2)}
    graph = net.graph(
        net.op("Conv", net.input("x", 1, 4, 19, 19), net.uniform(4, 1, 3, 3), shape=(1, 4, 5, 5), **attributes)
    )
    assert "dilations [5, 5] and strides [2, 2]" in _reason(graph, "vsi:imx8mp", Precision.I8)
    assert _reason(graph, "vsi:imx8mp", Precision.FP32) == ""
    assert _reason(graph, "vsi:v853", Precision.I8) == ""


@pytest.mark.parametrize("target", PARTS)
def test_16_bits_take_no_other_bias_of_a_response_normalisation(target: str) -> None:
    net = Network()
    graph = net.graph(net.op("LRN", net.input("x", 1, 8, 4, 4), size=3, bias=2.0))
    assert "bias=2 at 16 bits" in _reason(graph, target, Precision.I16)
    assert _reason(graph, target, Precision.U8) == ""


COARSE, FINE = Quantization((0.5,), (-3,)), Quantization((0.25,), (7,))


def _kinds(**shapes: tuple[tuple[int, ...], Quantization]) -> dict[str, TensorType]:
    return {name: TensorType(DType.I8, shape, quant) for name, (shape, quant) in shapes.items()}


def _check_like_the_reference(graph: Graph, kinds: tuple[str, ...]) -> None:
    """Fail unless the emulator gives what the reference gives, and the program has these operators."""
    program = lower_graph(graph, part_of(target_named("vsi:v853")))
    assert tuple(operator.kind for operator in program.operators) == kinds
    rng = np.random.default_rng(3)
    sample = {name: rng.integers(-128, 128, graph.types[name].static_shape).astype(np.int8) for name in graph.inputs}
    ours, theirs = Emulation(program, Signature.of(graph)).run(sample), run_graph(graph, sample)
    assert np.array_equal(ours["y"], theirs["y"])


def test_a_pooling_of_single_values_is_a_slice() -> None:
    """The vendor's own, with a stride, was off by 240."""
    types = _kinds(x=((2, 3, 10, 8), COARSE), y=((2, 3, 4, 4), COARSE))
    node = Node("n", "MaxPool", ("x",), ("y",), {"kernel_shape": (1, 1), "strides": (3, 2)})
    _check_like_the_reference(Graph("g", (node,), ("x",), ("y",), types), ("strided_slice",))


@pytest.mark.parametrize("alpha", [-500.0, 500.0])
def test_a_threshold_that_no_value_reaches_divides_nothing(alpha: float) -> None:
    types = _kinds(x=((3, 5), COARSE), y=((3, 5), COARSE))
    node = Node("n", "ThresholdedRelu", ("x",), ("y",), {"alpha": alpha})
    _check_like_the_reference(Graph("g", (node,), ("x",), ("y",), types), ("compare", "select"))


def test_a_minimum_may_requantise() -> None:
    types = _kinds(x=((3, 5), COARSE), y=((3, 1), FINE))
    node = Node("n", "ReduceMin", ("x",), ("y",), {"axes": (1,)})
    types["y"] = replace(types["y"], quant=FINE)
    _check_like_the_reference(Graph("g", (node,), ("x",), ("y",), types), ("neg", "reduce", "neg", "data_convert"))


def test_rows_are_requantised_before_they_are_scattered_or_reversed() -> None:
    types = _kinds(x=((4, 5), COARSE), u=((2, 5), FINE), y=((4, 5), FINE))
    types["i"] = TensorType(DType.I64, (2, 1))
    node = Node("n", "ScatterND", ("x", "i", "u"), ("y",))
    graph = Graph("g", (node,), ("x", "u"), ("y",), types, {"i": np.array([[2], [0]])})
    _check_like_the_reference(graph, ("data_convert", "concat", "gather"))
    types = _kinds(x=((4, 2), COARSE), y=((4, 2), FINE))
    types["i"] = TensorType(DType.I64, (2,))
    node = Node("n", "ReverseSequence", ("x", "i"), ("y",))
    graph = Graph("g", (node,), ("x",), ("y",), types, {"i": np.array([3, 1])})
    program = lower_graph(graph, part_of(target_named("vsi:v853")))
    assert program.operators[0].kind == "data_convert"


def test_a_product_of_16_bits_with_itself_is_the_square_that_the_vendor_makes_of_it() -> None:
    quant = Quantization((2.0**-12,), (0,))
    types = dict.fromkeys("xy", TensorType(DType.I16, (2, 5), quant))
    program = lower_graph(
        Graph("g", (Node("n", "Mul", ("x", "x"), ("y",)),), ("x",), ("y",), types), part_of(target_named("vsi:v853"))
    )
    assert [operator.kind for operator in program.operators] == ["square"]


@pytest.mark.parametrize("target", PARTS)
@pytest.mark.parametrize(("axis", "refused"), [(0, False), (1, True), (2, True), (-1, True)])
def test_a_running_sum_of_bytes_without_its_own_element_is_refused_along_the_last_axis(
    axis: int, refused: bool, target: str
) -> None:
    net = Network()
    graph = net.graph(
        net.op("CumSum", net.input("x", 4, 5, 1), net.constant(axis), shape=(4, 5, 1), exclusive=1, reverse=0)
    )
    assert ("exclusive=1 of bytes" in _reason(graph, target, Precision.U8)) is refused


@pytest.mark.parametrize("target", PARTS)
def test_a_tile_of_bytes_makes_no_row_that_is_too_long(target: str) -> None:
    net = Network()
    graph = net.graph(net.op("Tile", net.input("x", 1, 40000), net.constant([1, 2]), shape=(1, 80000)))
    assert "rows of 80000 elements > 65535" in _reason(graph, target, Precision.I8PC)


def _grouped(net: Network, *, alike: bool, height: int, width: int) -> Graph:
    shape = (1, 6, height, width)
    rows = [1.0, 1.0, 1.0] if alike else [0.5, 1.0, 2.0]
    return net.graph(
        net.op(
            "GroupNormalization", net.input("x", *shape), net.constant(rows * 2), net.constant(rows * 2), num_groups=2
        )
    )


@pytest.mark.parametrize("target", PARTS)
def test_chunks_of_a_group_that_would_take_other_scales_are_refused(target: str) -> None:
    stream = target == "vsi:a733"
    assert (
        "take the scales of others"
        in _reason(_grouped(Network(), alike=False, height=3, width=5), target, Precision.U8)
    ) is not stream
    # 41 times the rounded inverse of 656 elements is cut to one channel less.
    assert (
        "take the scales of others"
        in _reason(_grouped(Network(), alike=False, height=41, width=16), target, Precision.I16)
    ) is not stream
    assert _reason(_grouped(Network(), alike=True, height=3, width=5), target, Precision.U8) == ""
    assert _reason(_grouped(Network(), alike=False, height=8, width=6), target, Precision.U8) == ""
    assert _reason(_grouped(Network(), alike=False, height=2, width=4), target, Precision.I16) == ""


@pytest.mark.parametrize("target", PARTS)
def test_tiny_planes_of_affine_bytes_are_not_normalised(target: str) -> None:
    def graph(height: int) -> Graph:
        net = Network()
        return net.graph(
            net.op("InstanceNormalization", net.input("x", 1, 4, height, 1), net.uniform(4), net.uniform(4))
        )

    assert ("equal ones come out as the least value" in _reason(graph(9), target, Precision.I8)) is (
        target != "vsi:a733"
    )
    assert _reason(graph(10), target, Precision.I8) == ""
    assert _reason(graph(1), target, Precision.I8DFP) == ""


def test_rows_of_one_element_have_no_length_beside_a_stream_processor() -> None:
    net = Network()
    graph = net.graph(net.op("LpNormalization", net.input("x", 2, 5, 1), axis=-1))
    assert "rows of one element" in _reason(graph, "vsi:a733", Precision.I8DFP)
    assert _reason(graph, "vsi:v853", Precision.I8DFP) == ""


@pytest.mark.parametrize("target", PARTS)
def test_depthwise_kernels_of_bytes_span_15_elements_and_11_on_the_oldest(target: str) -> None:
    def graph(spread: int) -> Graph:
        net, height = Network(), 20
        shape = (1, 4, height - 2 * spread, 3)
        weights = net.uniform(4, 1, 3, 1)
        return net.graph(
            net.op("Conv", net.input("x", 1, 4, height, 3), weights, shape=shape, group=4, dilations=(spread, 1))
        )

    longest = 5 if part_of(target_named(target)).generation in OLDEST else 7
    assert f"spans {2 * longest + 3} elements" in _reason(graph(longest + 1), target, Precision.U8)
    assert _reason(graph(longest + 1), target, Precision.I8DFP) == ""
    assert _reason(graph(longest), target, Precision.U8) == ""


def _kinds_in(graph: Graph, target: str) -> list[str]:
    return [operator.kind for operator in lower_graph(graph, part_of(target_named(target))).operators]


def test_means_of_single_values_are_copies() -> None:
    quant = Quantization((0.5,), (-3,))
    for op, attributes in (
        ("GlobalAveragePool", {}),
        ("ReduceMean", {"axes": (2, 3)}),
        ("AveragePool", {"kernel_shape": (1, 1)}),
    ):
        types = _kinds(x=((1, 4, 1, 1), quant), y=((1, 4, 1, 1), Quantization((0.25,), (7,))))
        graph = Graph("single", (Node("mean", op, ("x",), ("y",), attributes),), ("x",), ("y",), types)
        kinds = _kinds_in(graph, "vsi:rv1126")
        assert not {"reduce", "pool2d"} & set(kinds)
        _check_like_the_reference(graph, tuple(kinds))


def test_extremes_of_tiny_steps_are_requantised_apart() -> None:
    tiny, other = Quantization((3e-9,), (-3,)), Quantization((4e-9,), (7,))
    types = _kinds(x=((1, 4, 3, 3), tiny), y=((1, 4, 1, 1), other))
    graph = Graph("tiny", (Node("most", "GlobalMaxPool", ("x",), ("y",)),), ("x",), ("y",), types)
    assert _kinds_in(graph, "vsi:v853") == ["reduce", "data_convert"]
    types = _kinds(x=((1, 4, 3, 3), tiny), z=((1, 4, 3, 3), other), y=((1, 4, 3, 3), other))
    graph = Graph("tiny", (Node("most", "Max", ("x", "z"), ("y",)),), ("x", "z"), ("y",), types)
    assert _kinds_in(graph, "vsi:v853") == ["data_convert", "maximum"]
