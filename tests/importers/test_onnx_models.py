"""Real models: loaded, normalised and exported, they compute what ONNX Runtime computes on the original file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import work

from dovetail.importers import LoadOptions, load_model, load_onnx
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.quantize import load_by_rules
from dovetail.testing.running import random_feeds, relative_difference, run_graph, run_model

FILES = (
    "ic01_resnet8_cifar10/resnet8_float.onnx",
    "kws01_dscnn/kws_dscnn_fp32_nchw.onnx",
    "kws01_dscnn/kws_ref_model_float32.onnx",
    "kwt1_transformer/kwt1_non_stream.onnx",
    "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx",
    "ppocrv3_det/model.onnx",
    "silero_vad/silero_vad_16k_op15.onnx",
    "ultraface_rfb320/version-RFB-320.onnx",
    "vww01_mobilenetv1_025/vww_96_float.onnx",
    "yolox_nano/yolox_nano.onnx",
    "yolox_nano/yolox_nano_decoded.onnx",
)
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "ppocrv3_det/model.onnx": {"x": (1, 3, 96, 128)},
    "silero_vad/silero_vad_16k_op15.onnx": {"input": (1, 576), "state": (2, 1, 128)},
}
QUANTISED = "shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx"

pytestmark = pytest.mark.models


def _feeds(graph: Graph) -> dict[str, np.ndarray]:
    feeds = random_feeds(graph)
    if "sr" in feeds:
        feeds["sr"] = np.array(16000, dtype=np.int64)
    return feeds


def _live_names(path: Path) -> set[str]:
    """Return the names of the nodes that the outputs depend on and that some graph input reaches, bodies aside."""
    graph = onnx.load(str(path)).graph
    constant = {tensor.name for tensor in graph.initializer}
    reached: set[str] = {value.name for value in graph.input} - constant
    needed = {value.name for value in graph.output}
    computed = set()
    for node in graph.node:
        reads_shape_only = node.op_type in ("Shape", "Size")
        bodies = [item.g for item in node.attribute if item.type == onnx.AttributeProto.GRAPH]
        captured = {name for body in bodies for inner in body.node for name in inner.input}
        if not reads_shape_only and ({*node.input} | captured) & reached:
            reached.update(node.output)
            computed.add(node.name)
    live = set()
    for node in reversed(graph.node):
        if needed & set(node.output):
            live.add(node.name)
            needed.update(node.input)
            for item in node.attribute:
                needed.update(name for inner in item.g.node for name in inner.input)
    return {name for name in live & computed if name}


@pytest.mark.parametrize("file", FILES)
def test_outputs_equal_those_of_the_file(models: Path, file: str) -> None:
    path = models / file
    graph = load_model(path, LoadOptions(shapes=SHAPES.get(file, {})))
    normal = normalize(graph)
    feeds = _feeds(graph)
    expected = run_model(path.read_bytes(), feeds)
    for outputs in (run_graph(graph, feeds), run_graph(normal, feeds)):
        for want, got in zip(expected, outputs, strict=True):
            assert want.shape == got.shape
            assert relative_difference(want, got) <= 1e-4


@pytest.mark.parametrize("file", [*FILES, QUANTISED])
def test_every_computing_node_of_the_file_is_in_some_origin(models: Path, file: str) -> None:
    normal = normalize(load_model(models / file))
    kept = {name for node in normal.nodes for name in node.origin}
    assert _live_names(models / file) - kept == set()


@pytest.mark.parametrize("file", FILES)
def test_every_tensor_with_fixed_inputs_has_a_static_shape(models: Path, file: str) -> None:
    graph = load_model(models / file)
    shapes = dict(SHAPES.get(file, {}))
    for name in graph.inputs:
        shape = graph.types[name].shape
        shapes.setdefault(name, tuple(dim if isinstance(dim, int) else 1 for dim in shape or ()))
    fixed = load_model(models / file, LoadOptions(shapes=shapes))
    assert [name for name, kind in fixed.types.items() if kind.static_shape is None] == []
    assert not any(node.op in ("Shape", "If") for node in fixed.nodes)


def test_the_quantised_shufflenet_folds_and_computes_the_same(models: Path) -> None:
    path = models / QUANTISED
    graph = load_model(path)
    assert [node.op for node in graph.nodes].count("QuantizeLinear") == 1
    assert [node.op for node in graph.nodes].count("DequantizeLinear") == 1
    assert sum(kind.quant is not None and kind.quant.per_channel for kind in graph.types.values()) >= 56
    feeds = _feeds(graph)
    last = graph.types[graph.nodes[-1].inputs[0]].quant
    assert last is not None
    # Optimised, ONNX Runtime fuses our Q/DQ pairs into the integer kernels of the file. Without that it computes in
    # float32, and 56 convolutions carry roundings on: 2 steps on six random inputs. Its integer kernels saturate on
    # some processors, which floats do not: exact sums are what they are compared with.
    exact = load_by_rules(load_onnx(onnx.load(path)), "reference:ort-wide").run(feeds)
    for optimise, expected, largest_steps in (
        (True, run_model(path.read_bytes(), feeds)[0], 1),
        (False, exact[graph.outputs[0]], 3),
    ):
        got = run_graph(graph, feeds, optimise)[0]
        assert np.abs(expected - got).max() <= largest_steps * last.scale[0] * 1.001
        assert int(expected.argmax()) == int(got.argmax())


@pytest.mark.slow
def test_the_largest_model_is_loaded_with_bounded_work(models: Path) -> None:
    path = models / max(FILES, key=lambda file: (models / file).stat().st_size)
    with work.counted() as done:
        graph = load_model(path)
    assert done.calls < 1_000 * len(graph.nodes)
    assert done.peak_bytes < 2 * path.stat().st_size
