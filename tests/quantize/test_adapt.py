"""Placing a graph that came quantised: conversions, the Relu that a zero point was, and values that stay."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings

from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backend.registry import backend, find_target
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.plan import Placement
from dovetail.quantize.adapt import PlacedNode, adapt, is_conversion
from dovetail.quantize.formats import formats_of
from dovetail.quantize.restate import Change, NodeForm, restate
from dovetail.testing.strategies import quantized_graphs

_CPU = PlacedNode(Placement("cpu", Precision.FP32))
_NPU = Placement("vsi:a311d", Precision.U8)
_F32 = TensorType(DType.F32, (1, 4))


def _stored(dtype: DType, zero: int, scale: float = 0.5) -> TensorType:
    return TensorType(dtype, (1, 4), Quantization((scale,), (zero,)))


def _chain(first: TensorType, second: TensorType) -> Graph:
    nodes = (
        Node("q", "QuantizeLinear", ("x",), ("a",)),
        Node("s", "Sigmoid", ("a",), ("b",)),
        Node("t", "Tanh", ("b",), ("c",)),
        Node("dq", "DequantizeLinear", ("c",), ("y",)),
    )
    return Graph("g", nodes, ("x",), ("y",), {"x": _F32, "a": first, "b": second, "c": second, "y": _F32})


def _run(graph: Graph, feeds: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
    reference = backend("reference")
    blob = reference.compile(graph, find_target("reference"), CompileOptions())
    return reference.devices()[0].load(blob, Signature.of(graph)).run(feeds)


def _restated(graph: Graph, name: str, form: NodeForm) -> PlacedNode:
    return PlacedNode(_NPU, restate(graph, graph.node(name), form))


def _bytes(dtype: DType) -> NodeForm:
    return NodeForm(NumberFormat(dtype), NumberFormat(dtype), DType.I32, Precision.U8)


def test_nothing_is_converted_where_nothing_is_restated() -> None:
    graph = _chain(_stored(DType.U8, 3), _stored(DType.U8, 9))
    made = adapt(graph, {"s": _CPU, "t": _CPU})
    assert made.graph == graph
    assert made.boundaries == {"q", "dq"}


def test_a_conversion_of_the_file_writes_what_its_readers_want() -> None:
    graph = _chain(_stored(DType.I8, 3), _stored(DType.I8, 9))
    placed = {name: _restated(graph, name, _bytes(DType.U8)) for name in ("s", "t")}
    made = adapt(graph, placed)
    assert [node.op for node in made.graph.nodes] == ["QuantizeLinear", "Sigmoid", "Tanh", "DequantizeLinear"]
    assert {made.graph.types[node.outputs[0]].dtype for node in made.graph.nodes[:3]} == {DType.U8}
    assert [str(made.placements[name]) for name in ("q", "s", "t", "dq")] == [
        "cpu@fp32",
        "vsi:a311d@u8",
        "vsi:a311d@u8",
        "cpu@fp32",
    ]


def test_neighbours_of_other_formats_get_one_conversion() -> None:
    graph = _chain(_stored(DType.I8, 3), _stored(DType.I8, 9))
    made = adapt(graph, {"s": _restated(graph, "s", _bytes(DType.U8)), "t": _CPU})
    assert [node.op for node in made.graph.nodes] == [
        "QuantizeLinear",
        "Sigmoid",
        "Requantize",
        "Tanh",
        "DequantizeLinear",
    ]
    feeds = {"x": np.array([[-3, 0.2, 1, 40]], np.float32)}
    np.testing.assert_array_equal(_run(made.graph, feeds)["y"], _run(graph, feeds)["y"])


def test_a_clamp_that_storage_was_comes_back() -> None:
    # 16 bits from zero to six: the exporter dropped the clip, and a scheme around zero lets more pass on both sides.
    scale = 6 / 65535
    wide = TensorType(DType.I16, (1, 4), Quantization((0.001,), (0,)))
    half = TensorType(DType.I16, (1, 4), Quantization((scale,), (-32768,)))
    node = Node("sum", "Add", ("x", "z"), ("y",))
    graph = Graph("g", (node,), ("x", "z"), ("y",), {"x": wide, "z": wide, "y": half})
    made = adapt(graph, {"sum": _restated(graph, "sum", NodeForm.of(Precision.I16))})
    assert [node.op for node in made.graph.nodes if node.op == "Clip"] == ["Clip"]
    feeds = {"x": np.array([[-900, -5, 700, 7900]], np.int16), "z": np.zeros((1, 4), np.int16)}
    reals = (_run(made.graph, feeds)["y"].astype(np.float64) + 32768) * scale
    np.testing.assert_allclose(reals, [[0, 0, 0.7, 6]], atol=0.002)


def test_a_conversion_that_the_target_lacks_runs_on_the_cpu() -> None:
    channels = TensorType(DType.U8, (1, 4), Quantization((0.5, 0.25, 0.5, 0.5), (3,) * 4, 1))
    one = _stored(DType.U8, 9)
    nodes = (
        Node("s", "Sigmoid", ("a",), ("b",)),
        Node("spread", "Requantize", ("b",), ("c",), {}, "dovetail"),
        Node("back", "Requantize", ("c",), ("d",), {}, "dovetail"),
        Node("t", "Tanh", ("d",), ("y",)),
    )
    graph = Graph("g", nodes, ("a",), ("y",), {"a": one, "b": one, "c": channels, "d": one, "y": one})
    made = adapt(graph, {name: PlacedNode(_NPU) for name in ("s", "t")})
    assert {name: place.target for name, place in made.placements.items()} == {
        "s": "vsi:a311d",
        "spread": "cpu",
        "back": "cpu",
        "t": "vsi:a311d",
    }


@settings(max_examples=60)
@given(quantized_graphs())
def test_the_same_values_in_other_bytes_give_the_same_outputs(graph: Graph) -> None:
    """Signed or unsigned: whatever is restated without a change computes the same, to the last bit."""
    for dtype in (DType.U8, DType.I8):
        placed = {node.name: _CPU for node in graph.nodes if not is_conversion(graph, node)}
        for name in placed:
            per_channel = formats_of(graph, graph.node(name)).per_channel
            weight = Precision.I8PC.weight if per_channel else NumberFormat(dtype)
            restated = restate(graph, graph.node(name), NodeForm(NumberFormat(dtype), weight, DType.I32, Precision.U8))
            if restated is not None and restated.change <= Change.RESTATED:
                placed[name] = PlacedNode(_NPU, restated)
        feeds = {
            name: np.random.default_rng(3).normal(size=graph.types[name].static_shape or ()).astype(np.float32)
            for name in graph.inputs
        }
        found, wanted = _run(adapt(graph, placed).graph, feeds), _run(graph, feeds)
        for name in graph.outputs:
            np.testing.assert_array_equal(found[name], wanted[name])
