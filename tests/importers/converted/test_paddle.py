"""Paddle models, converted for real; the judge is the ONNX file that Baidu published beside the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from dovetail.importers import LoadOptions, load_model
from dovetail.passes import normalize
from dovetail.quantize import load_float

from .conftest import Ready, run_there

_SHAPE = LoadOptions(shapes={"x": (1, 3, 96, 160)})


@pytest.mark.env
@pytest.mark.models
def test_ppocr_is_the_network_that_its_own_onnx_file_is(models: Path, ready: Ready) -> None:
    ready("paddle")
    ours = load_model(models / "ppocrv3_det/model.pdmodel", _SHAPE)
    theirs = load_model(models / "ppocrv3_det/model.onnx", _SHAPE)
    value = np.random.default_rng(0).normal(size=(1, 3, 96, 160)).astype(np.float32)
    name = ours.outputs[0]
    found = load_float(normalize(ours), 1).run({"x": value})[name]
    wanted = load_float(normalize(theirs), 1).run({"x": value})[theirs.outputs[0]]
    assert np.abs(found - wanted).max() < 1e-4


@pytest.mark.env
@pytest.mark.models
def test_operators_have_the_names_of_the_variables_that_they_write(models: Path, ready: Ready) -> None:
    ready("paddle")
    graph = load_model(models / "ppocrv3_det/model.pdmodel", _SHAPE)
    published = onnx.load(models / "ppocrv3_det/model.onnx")
    wanted = {node.output[0] for node in published.graph.node if node.op_type == "Conv"}
    assert {node.name for node in graph.nodes if node.op == "Conv"} == wanted
    assert graph.outputs == ("sigmoid_0.tmp_0",)


_PIR = """
import numpy, paddle
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = paddle.nn.Conv2D(3, 4, 3, padding=1)
        self.head = paddle.nn.Linear(4, 5)
    def forward(self, image):
        seen = paddle.nn.functional.hardswish(self.first(image)).mean([2, 3])
        return paddle.nn.functional.softmax(self.head(seen))
net = Net()
net.eval()
paddle.jit.save(net, "inference", input_spec=[paddle.static.InputSpec([1, 3, 16, 16], "float32", "image")])
value = numpy.random.default_rng(0).normal(size=(1, 3, 16, 16)).astype("float32")
numpy.savez("judge.npz", value=value, wanted=net(paddle.to_tensor(value)).numpy())
"""


@pytest.mark.env
@pytest.mark.slow
def test_networks_in_json(tmp_path: Path, ready: Ready) -> None:
    run_there(ready("paddle-pir"), _PIR, tmp_path)
    graph = normalize(load_model(tmp_path / "inference.json"))
    with np.load(tmp_path / "judge.npz") as judge:
        found = load_float(graph, 1).run({"image": judge["value"]})[graph.outputs[0]]
        assert np.abs(found - judge["wanted"]).max() < 1e-6
