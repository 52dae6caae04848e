"""What targets make of the formats that a file asks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from dovetail.backend.registry import find_target
from dovetail.compare.honour import HonourRequest, honour_graph
from dovetail.compare.judgement import JudgedNode, NodeOutcome
from dovetail.ir import DType, Graph, Node, Quantization, TensorType


def _stored(dtype: DType, zero: int = 0, scale: float = 0.3) -> TensorType:
    return TensorType(dtype, (1, 4), Quantization((scale,), (zero,)))


def _product(data: TensorType, weight: DType, *, channels: int = 1, bias: TensorType | None = None) -> Graph:
    axis = 0 if channels > 1 else None
    kind = TensorType(weight, (4, 4), Quantization((0.3,) * channels, (0,) * channels, axis))
    types = {"x": data, "w": kind, "y": data}
    constants = {"w": np.arange(16).reshape(4, 4).astype(weight.carrier)}
    inputs: tuple[str, ...] = ("x", "w")
    if bias is not None:
        types["b"], constants["b"], inputs = bias, np.zeros(4, bias.dtype.carrier), ("x", "w", "b")
    return Graph("g", (Node("fc", "Gemm", inputs, ("y",), {"transB": 1}),), ("x",), ("y",), types, constants)


def _judged(graph: Graph, target: str, *, float_on_host: bool = False) -> Mapping[str, JudgedNode]:
    request = HonourRequest(find_target(target), find_target("cpu"), float_on_host)
    return {item.node: item for item in honour_graph(graph, request)}


@pytest.mark.parametrize(
    ("target", "graph", "outcome", "place", "engine"),
    [
        ("vsi:a311d", _product(_stored(DType.U8), DType.U8), NodeOutcome.HONOURED, "vsi:a311d@u8", "NN"),
        ("vsi:a311d", _product(_stored(DType.I8), DType.I8, channels=4), NodeOutcome.HONOURED, "vsi:a311d@i8pc", "SH"),
        ("vsi:v853", _product(_stored(DType.I8), DType.I8, channels=4), NodeOutcome.HONOURED, "vsi:v853@i8pc", "NN"),
        ("vsi:a311d", _product(_stored(DType.U8), DType.I8), NodeOutcome.RESTATED, "vsi:a311d@u8", "NN"),
        ("vsi:a311d", _product(_stored(DType.I16), DType.I8, channels=4), NodeOutcome.CHANGED, "vsi:a311d@i16", "NN"),
        ("vsi:a311d", _product(_stored(DType.U16), DType.U16), NodeOutcome.CHANGED, "vsi:a311d@i16", "NN"),
    ],
)
def test_products(target: str, graph: Graph, outcome: NodeOutcome, place: str, engine: str) -> None:
    found = _judged(graph, target)["fc"]
    assert found.engine is not None
    assert (found.outcome, str(found.place), found.engine.value) == (outcome, place, engine)
    assert bool(found.reason) is (outcome is not NodeOutcome.HONOURED)


def test_the_reason_says_what_is_refused_and_what_is_made_of_it() -> None:
    found = _judged(_product(_stored(DType.U8), DType.I8), "vsi:a311d")["fc"]
    assert found.reason == "u8 with i8 weights; weight: i8 symmetric is u8 symmetric"
    assert found.given is not None
    assert found.given.text == "u8 asymmetric; weight u8 symmetric"
    wide = _judged(_product(_stored(DType.I16), DType.I8), "vsi:a311d")["fc"]
    assert "16-bit activations with 8-bit weights" in wide.reason
    assert "input: i16 symmetric becomes i16 2^n" in wide.reason


def test_a_bias_at_another_scale_is_restated() -> None:
    off = TensorType(DType.I32, (4,), Quantization((0.5,), (0,)))
    found = _judged(_product(_stored(DType.U8), DType.U8, bias=off), "vsi:a311d")["fc"]
    assert found.outcome is NodeOutcome.RESTATED
    assert "its bias is not at the scale of input times weight" in found.reason


def test_where_signs_meet_all_get_the_commoner_one() -> None:
    unsigned, signed = _stored(DType.U8, 5), _stored(DType.I8, 5)
    nodes = (
        Node("one", "Sigmoid", ("x",), ("a",)),
        Node("two", "Add", ("a", "z"), ("b",)),
        Node("three", "Tanh", ("b",), ("y",)),
    )
    types = {"x": unsigned, "z": signed, "a": unsigned, "b": unsigned, "y": unsigned}
    found = _judged(Graph("g", nodes, ("x", "z"), ("y",), types), "vsi:a311d")
    assert [found[name].outcome for name in ("one", "two", "three")] == [
        NodeOutcome.HONOURED,
        NodeOutcome.RESTATED,
        NodeOutcome.HONOURED,
    ]
    assert found["two"].given is not None
    assert found["two"].given.text == "u8 asymmetric"


def test_float_is_asked_as_float_and_can_stay_on_the_cpu() -> None:
    real = TensorType(DType.F32, (1, 4))
    graph = Graph("g", (Node("s", "Sigmoid", ("x",), ("y",)),), ("x",), ("y",), {"x": real, "y": real})
    there, here = _judged(graph, "vsi:a311d")["s"], _judged(graph, "vsi:a311d", float_on_host=True)["s"]
    assert (there.outcome, str(there.place)) == (NodeOutcome.HONOURED, "vsi:a311d@fp32")
    assert (here.outcome, str(here.place)) == (NodeOutcome.HONOURED, "cpu@fp32")


def test_what_the_target_lacks_goes_to_the_cpu_or_nowhere() -> None:
    byte = _stored(DType.U8)
    unknown = Graph("g", (Node("n", "Mystery", ("x",), ("y",), {}, "ours"),), ("x",), ("y",), {"x": byte, "y": byte})
    found = _judged(unknown, "vsi:a311d")["n"]
    assert (found.outcome, found.place, found.given) == (NodeOutcome.REFUSED, None, None)
    assert "cpu: ONNX Runtime has no operator ours::Mystery" in found.reason
    index = TensorType(DType.I64, (1, 4))
    whole = Graph("g", (Node("n", "Abs", ("x",), ("y",)),), ("x",), ("y",), {"x": index, "y": index})
    found = _judged(whole, "vsi:a311d")["n"]
    assert (found.outcome, str(found.place)) == (NodeOutcome.CPU, "cpu@fp32")


def test_data_with_a_scale_per_channel_get_one_scale() -> None:
    channels = TensorType(DType.U8, (1, 4), Quantization((0.5, 0.25, 0.5, 0.5), (3,) * 4, 1))
    byte = _stored(DType.U8)
    graph = Graph("g", (Node("s", "Sigmoid", ("x",), ("y",)),), ("x",), ("y",), {"x": channels, "y": byte})
    found = _judged(graph, "vsi:a311d")["s"]
    assert (found.outcome, str(found.place)) == (NodeOutcome.CHANGED, "vsi:a311d@u8")
    assert "a scale per channel; input: u8 asymmetric per channel becomes u8 asymmetric" in found.reason


def test_conversions_are_not_judged() -> None:
    real, byte = TensorType(DType.F32, (1, 4)), _stored(DType.U8)
    nodes = (Node("q", "QuantizeLinear", ("x",), ("a",)), Node("s", "Sigmoid", ("a",), ("y",)))
    assert set(_judged(Graph("g", nodes, ("x",), ("y",), {"x": real, "a": byte, "y": byte}), "vsi:a311d")) == {"s"}
