"""Constants in the formats of a plan: made once, named apart, and nobody's to change."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Quantization, TensorType
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.roles import weight_layout
from dovetail.quantize.parameters import choose_quantization
from dovetail.quantize.ranges import Range
from dovetail.quantize.weights import StoredConstant, WeightStore
from dovetail.testing.networks import Network

P = Precision
U8, I16 = P.U8.activation, P.I16.activation


def _operand(*values: float) -> WeightStore:
    net = Network()
    return WeightStore(net.graph(net.op("Add", net.input("x", 1, len(values)), net.constant(list(values)))))


def _conv(weight: float, bias: float | None, op: str = "Conv") -> Graph:
    """Return a 1x1 convolution of one weight, and its bias if there is one."""
    net = Network()
    extra = () if bias is None else (net.constant(np.array([bias], np.float32), "b"),)
    x = net.input("x", 1, 1, 4, 4)
    return net.graph(net.op(op, x, net.constant(np.full((1, 1, 1, 1), weight, np.float32), "w"), *extra))


def _weight(store: WeightStore, graph: Graph, precision: Precision, input_scale: float) -> StoredConstant:
    layout = weight_layout(graph, graph.nodes[0])
    assert layout is not None
    return store.weight(graph.nodes[0], layout, precision, input_scale)


def _scale(graph: Graph, precision: Precision, input_scale: float) -> float:
    quant = _weight(WeightStore(graph), graph, precision, input_scale).kind.quant
    assert quant is not None
    return quant.scale[0]


@pytest.mark.parametrize("values", [(0.25, 0.5), (-0.5, -0.25), (-3.0, 5.0)])
def test_an_operand_has_the_range_of_its_values_and_zero(values: tuple[float, float]) -> None:
    found = _operand(*values).data("k0", U8)
    limits = Range(min(*values, 0.0), max(*values, 0.0))
    assert found.kind == TensorType(DType.U8, (2,), choose_quantization(limits, U8))
    assert found.name == "k0@u8"


def test_an_operand_is_made_once_for_each_format() -> None:
    store = _operand(1.0, 2.0)
    assert store.data("k0", U8) is store.data("k0", U8)
    assert store.data("k0", I16).kind.dtype is DType.I16
    half, brain = (store.data("k0", NumberFormat(dtype)) for dtype in (DType.F16, DType.BF16))
    assert (half.name, half.kind, half.value.dtype) == ("k0@f16", TensorType(DType.F16, (2,)), np.float16)
    assert (brain.name, brain.kind, brain.value.dtype) == ("k0@bf16", TensorType(DType.BF16, (2,)), np.float32)


def test_bfloat16_constants_are_rounded() -> None:
    found = _operand(1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8).data("k0", NumberFormat(DType.BF16))
    assert found.value.tolist() == [1.0, 1.0 + 2.0**-6]


def test_constants_are_nobodys_to_change() -> None:
    store = _operand(1.0, 2.0)
    graph = _conv(1.0, 2.0)
    weights = WeightStore(graph)
    layout = weight_layout(graph, graph.nodes[0])
    assert layout is not None
    made = [
        *(store.data("k0", NumberFormat(dtype)) for dtype in (DType.F16, DType.BF16)),
        store.data("k0", U8),
        _weight(weights, graph, P.I8, 1.0),
        weights.bias(graph.nodes[0], layout, P.I8, 1.0, Quantization((1.0,), (0,))),
    ]
    for item in made:
        with pytest.raises(ValueError, match="read-only"):
            item.value[...] = 0


def test_a_weights_scale_leaves_room_for_the_bias() -> None:
    own, needed = 1.0 / 127, 2.0**40 / 2.0**30
    assert _scale(_conv(1.0, 2.0**40), P.I8, 1.0) == pytest.approx(needed)
    assert _scale(_conv(1.0, 2.0**40), P.I8PC, 1.0) == pytest.approx(needed)
    assert _scale(_conv(1.0, 2.0**40), P.I8PC, 0.5) == pytest.approx(2 * needed)
    assert _scale(_conv(1.0, 2.0**38), P.W8A16, 1.0) == pytest.approx(own)
    assert _scale(_conv(1.0, 2.0**56), P.W8A16, 1.0) == pytest.approx(2.0**10)
    assert _scale(_conv(1.0, None), P.I8, 1.0) == pytest.approx(own)
    assert _scale(_conv(1.0, 2.0), P.I8, 1.0) == pytest.approx(own)


def test_a_bias_of_rows_leaves_room_too() -> None:
    net = Network()
    weight = net.constant(np.eye(3, dtype=np.float32), "w")
    bias = net.constant(np.full((1, 3), 2.0**40, np.float32), "b")
    graph = net.graph(net.op("Gemm", net.input("x", 1, 3), weight, bias))
    assert _scale(graph, P.I8, 1.0) == pytest.approx(2.0**40 / 2.0**30)


def test_a_weight_is_made_once_where_the_input_does_not_matter() -> None:
    graph = _conv(1.0, None)
    store = WeightStore(graph)
    assert _weight(store, graph, P.I8, 1.0) is _weight(store, graph, P.I8, 2.0)
    assert _weight(store, graph, P.I8PC, 1.0) is not _weight(store, graph, P.I8, 1.0)


def test_weights_of_unlike_scales_have_unlike_names() -> None:
    graph = _conv(1.0, 2.0**40)
    store = WeightStore(graph)
    first, second = _weight(store, graph, P.I8, 1.0), _weight(store, graph, P.I8, 0.5)
    assert (first.name, second.name) == ("w@i8sym", "w@i8sym#1")
    assert _weight(store, graph, P.I8, 1.0) is first
    same = _conv(1.0, 2.0)
    store = WeightStore(same)
    assert _weight(store, same, P.I8, 1.0).name == _weight(store, same, P.I8, 0.5).name == "w@i8sym"


def test_biases_of_unlike_scales_have_unlike_names() -> None:
    graph = _conv(1.0, 3.0)
    layout = weight_layout(graph, graph.nodes[0])
    assert layout is not None
    store, node, unit = WeightStore(graph), graph.nodes[0], Quantization((1.0,), (0,))
    first, second = (store.bias(node, layout, P.I8, scale, unit) for scale in (1.0, 0.5))
    third = store.bias(node, layout, P.I8, 1.0, Quantization((0.5,), (0,)))
    assert len({first.name, second.name, third.name}) == 3
    assert store.bias(node, layout, P.I8, 1.0, unit) is first
    assert [item.value.tolist() for item in (first, second, third)] == [[3], [6], [6]]
    assert second.kind == TensorType(DType.I32, (1,), Quantization((0.5,), (0,)))
    assert store.bias(node, layout, P.I16, 1.0, unit).kind.dtype is DType.I64
