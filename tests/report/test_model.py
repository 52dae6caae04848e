"""What is said of real models, against what their authors published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail
from dovetail.importers.onnx import load_onnx
from dovetail.report import describe_graph, model_page, page_text
from dovetail.testing.networks import Network


@pytest.mark.models
@pytest.mark.parametrize(
    ("file", "parameters", "macs"),
    [
        # Howard et al. 2017, table 8 and its repository: 0.25 MobileNet-128 has 14 M multiply-adds, 0.47 M parameters.
        ("mbv1_025_128_imagenet/mbnet128_0.25_f.onnx", 0.47e6, 14e6),
        # YOLOX's README: YOLOX-Nano has 0.91 M parameters and 1.08 GFLOPs, two for each multiply-accumulate.
        ("yolox_nano/yolox_nano.onnx", 0.91e6, 0.54e9),
        # MLPerf Tiny: ResNet-8 has 78 k parameters and 12.5 M multiply-accumulates.
        ("ic01_resnet8_cifar10/resnet8_float.onnx", 78e3, 12.5e6),
    ],
)
def test_sizes_are_as_published(file: str, parameters: float, macs: float, models: Path) -> None:
    summary = describe_graph(dovetail.normalize(dovetail.load_model(models / file)))
    assert summary.parameter_count == pytest.approx(parameters, rel=0.05)
    assert summary.macs == pytest.approx(macs, rel=0.05)


@pytest.mark.models
def test_an_already_quantised_model_says_so(models: Path) -> None:
    graph = dovetail.normalize(dovetail.load_model(models / "shufflenetv2_int8_onnx" / "shufflenet-v2-12-int8.onnx"))
    summary = describe_graph(graph)
    assert summary.quantised["i8 per channel"] > 50
    assert "tensors u8" in page_text(model_page(summary))


def test_weights_next_to_nothing_are_far_apart_from_others() -> None:
    net = Network(1)
    weight = np.ones((2, 3, 1, 1), np.float32)
    weight[1] = 1e-44
    graph = net.graph(net.op("Conv", net.input("x", 1, 3, 4, 4), net.constant(weight), shape=(1, 2, 4, 4)))
    text = page_text(model_page(describe_graph(graph)))
    assert "weights of output channels are 1e+44 times apart" in " ".join(text.split())


def test_weights_of_bodies_are_counted_and_their_work_is_not_known() -> None:
    """A model may be one If: a voice detector's two sampling rates."""
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    bodies = {
        f"{what}_branch": helper.make_graph(
            [helper.make_node("MatMul", ["x", f"{what}_w"], [f"{what}_y"])],
            what,
            [],
            [helper.make_tensor_value_info(f"{what}_y", TensorProto.FLOAT, [2, 3])],
            [numpy_helper.from_array(np.ones((4, 3), np.float32), f"{what}_w")],
        )
        for what in ("then", "else")
    }
    inputs = [
        helper.make_tensor_value_info("fast", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4]),
    ]
    graph = helper.make_graph([helper.make_node("If", ["fast"], ["y"], "choose", **bodies)], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    summary = describe_graph(dovetail.normalize(load_onnx(model)))
    assert (summary.parameter_count, summary.parameter_bytes, summary.macs) == (24, 96, None)
    assert summary.weights == {"f32": 24}
