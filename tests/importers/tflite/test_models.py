"""The collected TFLite models against LiteRT's reference kernels, on inputs of their own type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import work

from dovetail.backend.arithmetic import TFLITE
from dovetail.backends.reference import run_graph
from dovetail.importers import LoadOptions, load_model
from dovetail.ir import AnyArray, Graph
from judges.tflite_graphs import run_lite

pytestmark = pytest.mark.models

EXACT = {
    "ic01_resnet8_cifar10/resnet8_int8.tflite": 1,
    "kws01_dscnn/kws_ref_model_int8.tflite": 0,
    "mbv1_025_128_imagenet/mbnet128_0.25_q.tflite": 1,
    "mbv1_uint8_coral/mobilenet_v1_0.25_128_quant.tflite": 1,
    "mnist_conv_fc/conv_fc_mnist_srq_a8w8.tflite": 1,
    "mnist_lstm/trained_lstm_int8.tflite": 2,
    "movenet_lightning_int8/movenet_single_pose_lightning_ptq.tflite": 5,
    "vww01_mobilenetv1_025/vww_96_int8.tflite": 1,
}
"""Integer models whose every output is LiteRT's by TFLite's rules, and how many Transposes they may hold."""
FLOAT = {
    "ic01_resnet8_cifar10/resnet8_float.tflite": 1,
    "kws01_dscnn/kws_ref_model_float32.tflite": 0,
    "kwt1_transformer/kwt1_non_stream.tflite": 36,
    "mbv1_025_128_imagenet/mbnet128_0.25_f.tflite": 1,
    "mnist_conv_fc/conv_fc_mnist.tflite": 1,
    "mnist_lstm/trained_lstm.tflite": 2,
    "vww01_mobilenetv1_025/vww_96_float.tflite": 1,
}


def _feeds(graph: Graph) -> list[AnyArray]:
    generator = np.random.default_rng(3)
    found: list[AnyArray] = []
    for name in graph.inputs:
        kind = graph.types[name]
        shape = kind.static_shape or ()
        if kind.dtype.is_float:
            found.append(generator.normal(size=shape).astype(np.float32))
        else:
            found.append(generator.integers(*kind.dtype.integer_range, shape).astype(kind.dtype.carrier))
    return found


def _outputs(graph: Graph, feeds: list[AnyArray]) -> list[AnyArray]:
    values = run_graph(graph, dict(zip(graph.inputs, feeds, strict=True)), TFLITE)
    return [values[name] for name in graph.outputs]


def _transposes(graph: Graph) -> int:
    return sum(node.op == "Transpose" for node in graph.nodes)


@pytest.mark.parametrize("name", EXACT)
def test_integer_models_give_litert_s_integers(models: Path, name: str) -> None:
    graph = load_model(models / name)
    feeds = _feeds(graph)
    for found, want in zip(_outputs(graph, feeds), run_lite((models / name).read_bytes(), feeds), strict=True):
        np.testing.assert_array_equal(found, want)
    assert _transposes(graph) <= EXACT[name]


@pytest.mark.parametrize("name", FLOAT)
def test_float_models_give_litert_s_numbers(models: Path, name: str) -> None:
    with work.counted() as done:
        graph = load_model(models / name)
    assert done.calls < 4_000 * len(graph.nodes)
    feeds = _feeds(graph)
    for found, want in zip(_outputs(graph, feeds), run_lite((models / name).read_bytes(), feeds), strict=True):
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-4 * float(np.abs(want).max()))
    assert _transposes(graph) <= FLOAT[name]


def test_hybrid_kernels_can_have_their_weights_as_floats(models: Path) -> None:
    path = models / "kws01_dscnn/kws_ref_model_float32.tflite"
    exact, plain = load_model(path), load_model(path, LoadOptions(exact_hybrid=False))
    assert len(plain.nodes) < 30 < len(exact.nodes)
    assert not any(kind.quant for kind in plain.types.values())


@pytest.mark.parametrize(
    ("lite", "onnx"),
    [
        ("ic01_resnet8_cifar10/resnet8_float.tflite", "ic01_resnet8_cifar10/resnet8_float.onnx"),
        ("mbv1_025_128_imagenet/mbnet128_0.25_f.tflite", "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx"),
        ("vww01_mobilenetv1_025/vww_96_float.tflite", "vww01_mobilenetv1_025/vww_96_float.onnx"),
    ],
)
def test_a_network_is_the_same_in_tflite_and_onnx(models: Path, lite: str, onnx: str) -> None:
    one, other = load_model(models / lite), load_model(models / onnx)
    (feed,) = _feeds(one)
    mine = run_graph(one, {one.inputs[0]: feed})[one.outputs[0]]
    theirs = run_graph(other, {other.inputs[0]: feed})[other.outputs[0]]
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-4 * float(np.abs(theirs).max()))
