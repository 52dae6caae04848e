"""Exported models run, and read back they are the same Graph."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings

from dovetail.errors import GraphError
from dovetail.exporters import save_onnx, to_onnx
from dovetail.importers import load_model, load_onnx
from dovetail.ir import DType, Graph, Node, Quantization, TensorType, dequantize_array, quantize_array
from dovetail.testing.running import random_feeds, run_graph
from dovetail.testing.strategies import Build, float_graphs, quantized_graphs


@given(float_graphs())
@settings(max_examples=60, deadline=None)
def test_exported_models_are_valid_onnx(graph: Graph) -> None:
    onnx.checker.check_model(to_onnx(graph), full_check=True)


@given(quantized_graphs())
@settings(max_examples=100, deadline=None)
def test_quantised_types_survive_the_round_trip(graph: Graph) -> None:
    model = to_onnx(graph)
    onnx.checker.check_model(model, full_check=True)
    back = load_onnx(model)
    assert [(node.op, node.domain, node.inputs, node.outputs) for node in back.nodes] == [
        (node.op, node.domain, node.inputs, node.outputs) for node in graph.nodes
    ]
    assert {name: kind for name, kind in back.types.items() if kind.quant} == {
        name: kind for name, kind in graph.types.items() if kind.quant
    }


@given(float_graphs())
@settings(max_examples=60, deadline=None)
def test_float_graphs_survive_the_round_trip(graph: Graph) -> None:
    back = load_onnx(to_onnx(graph))
    feeds = random_feeds(graph)
    for one, other in zip(run_graph(graph, feeds), run_graph(back, feeds), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_quantised_chain_computes_what_numpy_says() -> None:
    """Compare with the definition of QuantizeLinear, written out by `quantize_array`."""
    rng = np.random.default_rng(0)
    types = {
        "x": TensorType(DType.F32, (1, 4)),
        "q": TensorType(DType.U8, (1, 4), Quantization((0.02,), (128,))),
        "r": TensorType(DType.I16, (1, 4), Quantization((0.001,), (-7,))),
        "y": TensorType(DType.F32, (1, 4)),
    }
    nodes = (
        Node("in", "QuantizeLinear", ("x",), ("q",)),
        Node("mid", "Requantize", ("q",), ("r",), {}, "dovetail"),
        Node("out", "DequantizeLinear", ("r",), ("y",)),
    )
    graph = Graph("g", nodes, ("x",), ("y",), types)
    x = rng.standard_normal((1, 4)).astype(np.float32)
    first = types["q"].quant
    second = types["r"].quant
    assert first is not None
    assert second is not None
    middle = dequantize_array(quantize_array(x, DType.U8, first), first)
    expected = dequantize_array(quantize_array(middle, DType.I16, second), second)
    np.testing.assert_array_equal(run_graph(graph, {"x": x})[0], expected)


def test_a_wide_bias_becomes_its_real_value() -> None:
    build = Build(np.random.default_rng(0))
    quant = Quantization((2.0**-8,), (0,))
    build.types["x"] = TensorType(DType.I16, (1, 2, 3, 3), quant)
    weight = build.constant(
        np.ones((2, 2, 1, 1), np.int8), TensorType(DType.I8, (2, 2, 1, 1), Quantization((0.5,), (0,)))
    )
    wide = TensorType(DType.I64, (2,), Quantization((2.0**-9,), (0,)))
    bias = build.constant(np.array([512, -1024], dtype=np.int64), wide)
    build.add("Conv", weight, bias)
    graph = build.graph((build.last,))
    x = np.arange(18, dtype=np.int16).reshape(1, 2, 3, 3) * 8
    expected = np.clip(
        np.rint(x.sum(axis=1, keepdims=True) * 0.5 + np.array([256, -512]).reshape(1, 2, 1, 1)), -32768, 32767
    )
    np.testing.assert_array_equal(run_graph(graph, {"x": x})[0], expected.astype(np.int16))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_half_precision_is_stored_so_and_computed_in_float(dtype: DType) -> None:
    types = {name: TensorType(dtype, (1, 3)) for name in ("a", "b", "c")} | {
        name: TensorType(DType.F32, (1, 3)) for name in ("x", "y")
    }
    nodes = (
        Node("down", "Cast", ("x",), ("a",), {"to": 10 if dtype is DType.F16 else 16}),
        Node("one", "Exp", ("a",), ("b",)),
        Node("two", "Sqrt", ("b",), ("c",)),
        Node("up", "Cast", ("c",), ("y",), {"to": 1}),
    )
    graph = Graph("g", nodes, ("x",), ("y",), types)
    x = np.array([[0.1, 1.3, -2.7]], dtype=np.float32)

    def rounded(value: np.ndarray) -> np.ndarray:
        if dtype is DType.F16:
            return value.astype(np.float16).astype(np.float32)
        bits = value.astype(np.float32).view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
        return bits.view(np.float32)

    expected = rounded(np.sqrt(rounded(np.exp(rounded(x)))))
    np.testing.assert_allclose(run_graph(graph, {"x": x})[0], expected, rtol=2**-7)
    assert load_onnx(to_onnx(graph)).types["y"].dtype is DType.F32


def test_interfaces_may_be_quantised_or_constant(tmp_path_factory: pytest.TempPathFactory) -> None:
    quant = Quantization((0.5,), (3,))
    types = {
        "x": TensorType(DType.I8, ("N", 2), quant),
        "y": TensorType(DType.I8, ("N", 2), quant),
        "c": TensorType(DType.F32, (2,)),
    }
    constants = {"c": np.array([1.0, 2.0], dtype=np.float32)}
    graph = Graph("g", (Node("n", "Relu", ("x",), ("y",)),), ("x",), ("y", "c"), types, constants)
    x = np.array([[-5, 9], [3, 2]], dtype=np.int8)
    y, c = run_graph(graph, {"x": x})
    np.testing.assert_array_equal(y, np.maximum(x, 3))
    np.testing.assert_array_equal(c, constants["c"])
    path = tmp_path_factory.mktemp("models") / "model.onnx"
    save_onnx(graph, path)
    assert load_model(path).types["x"] == types["x"]


def test_an_operator_of_another_domain_is_refused() -> None:
    kind = TensorType(DType.F32, (1,))
    graph = Graph("g", (Node("n", "Magic", ("x",), ("y",), {}, "acme"),), ("x",), ("y",), {"x": kind, "y": kind})
    with pytest.raises(GraphError, match="acme"):
        to_onnx(graph)
