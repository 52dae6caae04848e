"""Inputs of one number that become constants, and the branches that they decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from dovetail.backends.reference import run_graph
from dovetail.errors import LoadError
from dovetail.importers import LoadOptions, load_model, load_onnx
from dovetail.ir.open_shapes import deciding_inputs


def _rates() -> ModelProto:
    """Return a model with a branch for each of two sampling rates, as voice detectors have them."""
    bodies = {
        f"{what}_branch": helper.make_graph(
            [helper.make_node("Mul", ["x", f"{what}_c"], [f"{what}_y"])],
            what,
            [],
            [helper.make_tensor_value_info(f"{what}_y", TensorProto.FLOAT, [2])],
            [numpy_helper.from_array(np.array(factor, np.float32), f"{what}_c")],
        )
        for what, factor in (("then", 2.0), ("else", 3.0))
    }
    nodes = [
        helper.make_node("Equal", ["sr", "fast"], ["is_fast"], "equal"),
        helper.make_node("If", ["is_fast"], ["y"], "rates", **bodies),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("sr", TensorProto.INT64, []),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    fast = numpy_helper.from_array(np.array(16000), "fast")
    graph = helper.make_graph(nodes, "rates", inputs, [output], [fast])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("rate", "factor"), [(16000, 2), (8000, 3)])
def test_an_input_of_one_number_becomes_a_constant(rate: int, factor: float) -> None:
    model = _rates()
    assert deciding_inputs(load_onnx(model)) == {"sr": "rates"}
    graph = load_onnx(model, LoadOptions(values={"sr": rate}))
    assert (graph.inputs, [node.op for node in graph.nodes]) == (("x",), ["Mul"])
    assert not deciding_inputs(graph)
    x = np.array([1, -2], np.float32)
    (want,) = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {"x": x, "sr": np.array(rate)}
    )
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["y"], want)
    np.testing.assert_array_equal(want, x * np.float32(factor))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rate": 1}, "the inputs are 'x', 'sr'"),
        ({"x": 1}, "input of one number"),
        ({"sr": 0.5}, "does not hold 0.5"),
        ({"sr": 1e30}, "does not hold 1e"),
        ({"sr": float("nan")}, "does not hold nan"),
    ],
)
def test_values_that_inputs_do_not_take_are_refused(values: dict[str, float], words: str) -> None:
    with pytest.raises(LoadError, match=words):
        load_onnx(_rates(), LoadOptions(values=values))


def test_other_formats_keep_their_inputs(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3")
    with pytest.raises(LoadError, match="that is for ONNX"):
        load_model(tmp_path / "m.tflite", LoadOptions(values={"sr": 1}))
