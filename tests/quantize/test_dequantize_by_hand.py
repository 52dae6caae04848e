"""What a quantised graph is lifted to, node by node; no model is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.quantize import Calibration, Range, Ranges, dequantize, is_quantized
from dovetail.quantize.statistics import Statistics

REAL = TensorType(DType.F32, (1, 2))
FLAG = TensorType(DType.BOOL, ())


def _u8(scale: float = 0.5, zero: int = 128) -> TensorType:
    return TensorType(DType.U8, (1, 2), Quantization((scale,), (zero,)))


def _graph(
    nodes: tuple[Node, ...], types: Mapping[str, TensorType], constants: Mapping[str, AnyArray] | None = None
) -> Graph:
    return Graph("g", nodes, ("x",), (nodes[-1].outputs[0],), types, constants or {})


def _around(node: Node, inside: TensorType, made: TensorType) -> Graph:
    """Return a node between a QuantizeLinear and a DequantizeLinear."""
    nodes = (
        Node("q", "QuantizeLinear", ("x",), ("xi",)),
        node,
        Node("dq", "DequantizeLinear", ("yi",), ("y",)),
    )
    return _graph(nodes, {"x": REAL, "xi": inside, "yi": made, "y": REAL})


def _ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_a_graph_is_quantised_if_a_tensor_is() -> None:
    plain = _graph((Node("a", "Relu", ("x",), ("y",)),), {"x": REAL, "y": REAL})
    assert not is_quantized(plain)
    assert is_quantized(_around(Node("a", "Sigmoid", ("xi",), ("yi",)), _u8(), _u8()))


def test_a_graph_is_quantised_if_a_body_is() -> None:
    def choice(kind: TensorType) -> Graph:
        body = Graph("b", (Node("i", "Abs", ("t",), ("r",)),), (), ("r",), {"t": kind, "r": kind}, captures=("t",))
        plain = Graph("p", (Node("i", "Abs", ("x",), ("r",)),), (), ("r",), {"x": REAL, "r": REAL}, captures=("x",))
        nodes = (
            Node("a", "Relu", ("x",), ("t",)),
            Node("c", "If", ("f",), ("y",), {"else_branch": plain, "then_branch": body}),
        )
        return Graph("g", nodes, ("x", "f"), ("y",), {"x": REAL, "f": FLAG, "t": REAL, "y": REAL})

    assert is_quantized(choice(_u8()))
    assert not is_quantized(choice(REAL))


def test_boundaries_vanish_and_ranges_are_what_the_integers_span() -> None:
    lifted = dequantize(_around(Node("a", "Sigmoid", ("xi",), ("yi",)), _u8(0.5, 128), _u8(0.25, 3)))
    assert _ops(lifted.graph) == ["Sigmoid"]
    assert (lifted.graph.inputs, lifted.graph.outputs) == (("x",), ("y",))
    assert set(lifted.graph.types.values()) == {REAL}
    assert (lifted.ranges.method, lifted.ranges.samples) == ("file", 0)
    assert lifted.ranges.graph_digest == lifted.graph.digest
    assert set(lifted.ranges.tensors.values()) <= {Range(-64.0, 63.5), Range(-0.75, 63.0)}


def test_inputs_and_outputs_become_the_reals_that_they_stand_for() -> None:
    graph = _graph((Node("a", "Sigmoid", ("x",), ("y",)),), {"x": _u8(0.5, 128), "y": _u8(0.25, 3)})
    lifted = dequantize(graph)
    assert lifted.graph.types == {"x": REAL, "y": REAL}
    assert lifted.ranges.tensors == {"x": Range(-64.0, 63.5), "y": Range(-0.75, 63.0)}


def test_constants_are_dequantised_and_have_no_range() -> None:
    kind = TensorType(DType.I8, (2, 2), Quantization((0.5, 0.25), (0, 4), 0))
    stored = {"w": np.array([[2, -2], [8, 0]], np.int8)}
    types = {"x": _u8(), "w": kind, "y": _u8(0.5, 1)}
    lifted = dequantize(_graph((Node("m", "MatMul", ("x", "w"), ("y",)),), types, stored))
    (weight,) = lifted.graph.constants.values()
    assert weight.tolist() == [[1.0, -1.0], [1.0, -1.0]]
    assert set(lifted.ranges.tensors) == {"x", "y"}


def test_a_tensor_with_a_scale_for_each_channel_has_no_range() -> None:
    channels = TensorType(DType.U8, (1, 2), Quantization((0.5, 0.25), (0, 0), 1))
    graph = _graph((Node("a", "Add", ("x", "x"), ("y",)),), {"x": _u8(), "y": channels})
    lifted = dequantize(graph)
    assert set(lifted.ranges.tensors) == {"x"}
    assert _ops(lifted.graph) == ["Add"]


@pytest.mark.parametrize(
    ("op", "zero", "clamps"), [("Add", 0, True), ("Add", 1, False), ("Sigmoid", 0, False), ("Mul", 0, True)]
)
def test_what_storage_cuts_off_at_zero_is_a_relu(op: str, zero: int, clamps: bool) -> None:
    inputs = ("xi",) if op == "Sigmoid" else ("xi", "xi")
    lifted = dequantize(_around(Node("a", op, inputs, ("yi",)), _u8(), _u8(0.5, zero)))
    assert _ops(lifted.graph) == [op, *["Relu"] * clamps]
    if clamps:
        relu = lifted.graph.nodes[-1]
        assert relu.origin == ("a", "dq")
        raw = relu.inputs[0]
        assert lifted.ranges.of(raw) == Range(0.0, 127.5)


def test_signed_storage_cuts_off_at_its_own_lowest() -> None:
    def signed(zero: int) -> TensorType:
        return TensorType(DType.I8, (1, 2), Quantization((0.5,), (zero,)))

    node = Node("a", "Add", ("xi", "xi"), ("yi",))
    assert _ops(dequantize(_around(node, signed(0), signed(-128))).graph) == ["Add", "Relu"]
    assert _ops(dequantize(_around(node, signed(0), signed(0))).graph) == ["Add"]


def test_a_conversion_cuts_off_where_its_source_went_lower() -> None:
    def converted(first: TensorType, second: TensorType, op: str) -> list[str]:
        nodes = (
            Node("c", op, ("x",), ("xi",), domain="dovetail" if op == "Requantize" else ""),
            Node("a", "Sigmoid", ("xi",), ("y",)),
        )
        return _ops(dequantize(_graph(nodes, {"x": first, "xi": second, "y": REAL})).graph)

    assert converted(REAL, _u8(0.5, 0), "QuantizeLinear") == ["Relu", "Sigmoid"]
    assert converted(REAL, _u8(0.5, 1), "QuantizeLinear") == ["Sigmoid"]
    assert converted(_u8(0.5, 7), _u8(0.25, 0), "Requantize") == ["Relu", "Sigmoid"]
    assert converted(_u8(0.5, 0), _u8(0.25, 0), "Requantize") == ["Sigmoid"]


def test_a_clamp_that_follows_alone_need_not_be_there_twice() -> None:
    def clamped(readers: int) -> list[str]:
        kind = _u8(0.5, 0)
        nodes = [Node("a", "Add", ("x", "x"), ("t",)), Node("r", "Relu", ("t",), ("y",))]
        nodes += [Node("s", "Sigmoid", ("t",), ("z",))] * (readers - 1)
        outputs = ("y", "z")[:readers]
        types = {"x": _u8(), "t": kind, "y": kind, "z": _u8(0.25, 3)}
        used = {name: types[name] for name in ("x", "t", *outputs)}
        return sorted(_ops(dequantize(Graph("g", tuple(nodes), ("x",), outputs, used)).graph))

    assert clamped(1) == ["Add", "Relu"]
    assert clamped(2) == ["Add", "Relu", "Relu", "Sigmoid"]


def test_what_two_outputs_store_is_not_clamped() -> None:
    kind = TensorType(DType.U8, (1, 1), Quantization((0.5,), (0,)))
    nodes = (
        Node("s", "Split", ("x",), ("a", "b"), {"axis": 1, "num_outputs": 2}),
        Node("m", "Add", ("a", "b"), ("y",)),
    )
    graph = Graph("g", nodes, ("x",), ("y",), {"x": _u8(), "a": kind, "b": kind, "y": replace(kind, quant=None)})
    assert _ops(dequantize(graph).graph) == ["Split", "Add"]


def test_facts_of_the_files_own_framework_go() -> None:
    node = Node("a", "LeakyRelu", ("xi",), ("yi",), {"alpha": 0.25, "tflite.scales": (1.0,)})
    lifted = dequantize(_around(node, _u8(), _u8(0.5, 3)))
    assert lifted.graph.nodes[0].attributes == {"alpha": 0.25}


def test_bodies_are_lifted_too() -> None:
    kind = _u8(0.5, 128)
    body = Graph("b", (Node("i", "Abs", ("x",), ("r",)),), (), ("r",), {"x": kind, "r": kind}, captures=("x",))
    node = Node("c", "If", ("f",), ("y",), {"then_branch": body, "else_branch": body})
    graph = Graph("g", (node,), ("x", "f"), ("y",), {"x": kind, "f": FLAG, "y": kind})
    assert not is_quantized(dequantize(graph).graph)


def test_the_files_ranges_go_before_those_that_were_measured() -> None:
    lifted = dequantize(_graph((Node("a", "Sigmoid", ("x",), ("y",)),), {"x": _u8(0.5, 128), "y": REAL}))
    measured = Ranges(lifted.graph.digest, "kl", 7, {"x": Range(-1.0, 1.0), "y": Range(0.0, 1.0)})
    refined = lifted.refine(Calibration(measured, Statistics({})))
    assert (refined.ranges.method, refined.ranges.samples) == ("file+kl", 7)
    assert refined.ranges.tensors == {"x": Range(-64.0, 63.5), "y": Range(0.0, 1.0)}
