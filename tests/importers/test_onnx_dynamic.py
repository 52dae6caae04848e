"""What quantize_dynamic makes: computed exactly, or taken as the float layers that the weights stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from dovetail.backends.reference import run_graph
from dovetail.errors import LoadError
from dovetail.exporters import to_onnx
from dovetail.importers import LoadOptions
from dovetail.importers.onnx import load_onnx
from dovetail.importers.survey import survey_model
from dovetail.ir import AnyArray

_FLOATS = LoadOptions(exact_hybrid=False)
_STEP = 1 / 254
"""Half a step of 8 bits, relative to the largest: of weights it is all that is lost."""


def _save(path: Path, nodes: list[NodeProto], weights: dict[str, AnyArray], sizes: tuple[list[int], list[int]]) -> None:
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip("xy", sizes, strict=True)
    ]
    stored = [
        numpy_helper.from_array(value if value.dtype == np.int64 else value.astype(np.float32), name)
        for name, value in weights.items()
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def _model(kind: str, folder: Path) -> Path:
    rng, path = np.random.default_rng(5), folder / "float.onnx"
    node = helper.make_node
    if kind == "dense":
        nodes = [node("MatMul", ["x", "w"], ["t"], "first"), node("Relu", ["t"], ["r"], "relu")]
        nodes.append(node("Gemm", ["r", "v", "b"], ["y"], "second"))
        weights = {"w": rng.normal(size=(8, 16)), "v": rng.normal(size=(16, 4)), "b": rng.normal(size=4)}
        _save(path, nodes, weights, ([2, 8], [2, 4]))
    elif kind == "conv":
        weights = {"w": rng.normal(size=(6, 3, 3, 3)), "b": rng.normal(size=6)}
        _save(
            path, [node("Conv", ["x", "w", "b"], ["y"], "c", pads=[1, 1, 1, 1])], weights, ([1, 3, 8, 8], [1, 6, 8, 8])
        )
    else:
        both = {"direction": "bidirectional"} if kind == "both" else {}
        ways = 1 + len(both)
        nodes = [node("LSTM", ["x", "w", "r", "b"], ["t", "", ""], "lstm", hidden_size=8, **both)]
        nodes += [
            node("Transpose", ["t"], ["u"], "turn", perm=[0, 2, 1, 3]),
            node("Reshape", ["u", "s"], ["y"], "rows"),
        ]
        shapes = {"w": (ways, 32, 4), "r": (ways, 32, 8), "b": (ways, 64)}
        weights = {name: rng.normal(size=shape) * 0.5 for name, shape in shapes.items()}
        weights["s"] = np.array([5, 1, 8 * ways], np.int64)
        _save(path, nodes, weights, ([5, 1, 4], [5, 1, 8 * ways]))
    return path


def _dynamic(kind: str, kept: QuantType, channels: bool, folder: Path) -> tuple[Path, Path]:
    path, made = _model(kind, folder), folder / "dynamic.onnx"
    quantize_dynamic(path, made, weight_type=kept, per_channel=channels)
    return path, made


def _run(model: bytes, x: AnyArray) -> AnyArray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    return np.asarray(found)


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("kept", [QuantType.QInt8, QuantType.QUInt8], ids=["i8", "u8"])
@pytest.mark.parametrize("kind", ["dense", "conv", "lstm", "both"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_weights_as_floats_are_the_float_layers(kind: str, kept: QuantType, channels: bool, tmp_path: Path) -> None:
    original, made = _dynamic(kind, kept, channels, tmp_path)
    graph, first = load_onnx(made, _FLOATS), load_onnx(original)
    assert {node.op for node in graph.nodes} <= {node.op for node in first.nodes} | {"Add", "MatMul", "Reshape"}
    x = np.random.default_rng(1).normal(size=graph.types["x"].static_shape).astype(np.float32)
    want = _run(original.read_bytes(), x)
    found = run_graph(graph, {"x": x})[graph.outputs[0]]
    # Weights lose half a step each; data nothing.
    assert np.abs(found - want).max() <= 6 * _STEP * np.abs(want).max()
    lossy = _run(made.read_bytes(), x)
    assert np.abs(found - lossy).max() <= 0.1 * np.abs(want).max()
    np.testing.assert_allclose(_run(to_onnx(graph).SerializeToString(), x), found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "conv"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_integers_are_computed_exactly_where_nothing_is_asked(kind: str, tmp_path: Path) -> None:
    _, made = _dynamic(kind, QuantType.QUInt8, False, tmp_path)
    graph = load_onnx(made)
    x = np.random.default_rng(2).normal(size=graph.types["x"].static_shape).astype(np.float32)
    np.testing.assert_allclose(run_graph(graph, {"x": x})["y"], _run(made.read_bytes(), x), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_not_computed_says_what_to_do(tmp_path: Path) -> None:
    _, made = _dynamic("lstm", QuantType.QInt8, False, tmp_path)
    with pytest.raises(LoadError, match=r"DynamicQuantizeLSTM.*quantize_dynamic") as caught:
        load_onnx(made)
    assert caught.value.option == "float_weights"
    assert "weights as floats" in str(caught.value)
    (note,) = survey_model(made).notes
    assert "1 operator quantises its data as it runs" in note
    assert not survey_model(tmp_path / "float.onnx").notes
    model = onnx.load(made)
    model.graph.node[0].op_type = "QAttention"
    with pytest.raises(LoadError, match="optimiser or quantiser writes it"):
        load_onnx(model)


def test_one_operator_with_a_float_result_is_read_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weight = rng.integers(-100, 100, (8, 4)).astype(np.int8)
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s", "z"], ["y"], "m", domain="com.microsoft")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [
            numpy_helper.from_array(weight, "w"),
            numpy_helper.from_array(np.array(0.02, np.float32), "s"),
            numpy_helper.from_array(np.array(3, np.int8), "z"),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    x = rng.normal(size=(2, 8)).astype(np.float32)
    found = run_graph(load_onnx(model, _FLOATS), {"x": x})["y"]
    np.testing.assert_allclose(found, x @ ((weight.astype(np.float32) - 3) * np.float32(0.02)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, _run(model.SerializeToString(), x), atol=0.1)


@pytest.mark.parametrize("shape", [(), (2,), (1, 5)])
def test_scales_of_no_shape_that_is_known_are_left(shape: tuple[int, ...]) -> None:
    names = ["x", "w", "r", "b", "", "", "", "", "s", "z", "s", "z"]
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLSTM", names, ["y"], "l", domain="com.microsoft", hidden_size=2)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 1, 1, 2])],
        [
            *(numpy_helper.from_array(np.ones((1, 2, 8), np.int8), name) for name in "wr"),
            numpy_helper.from_array(np.zeros((1, 16), np.float32), "b"),
            numpy_helper.from_array(np.ones(shape, np.float32), "s"),
            numpy_helper.from_array(np.zeros(shape, np.int8), "z"),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(LoadError, match="DynamicQuantizeLSTM"):
        load_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=9), _FLOATS)
