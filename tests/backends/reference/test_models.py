"""Whole float models against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from dovetail.backends.reference import run_graph
from dovetail.importers import load_onnx


@pytest.mark.models
@pytest.mark.parametrize(
    "file",
    [
        "ic01_resnet8_cifar10/resnet8_float.onnx",
        "kws01_dscnn/kws_dscnn_fp32_nchw.onnx",
        "kwt1_transformer/kwt1_non_stream.onnx",
        "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx",
        "ultraface_rfb320/version-RFB-320.onnx",
    ],
)
def test_float_model_agrees_with_onnx_runtime(models: Path, file: str) -> None:
    graph = load_onnx(models / file)
    draw = np.random.default_rng(0)
    feeds = {}
    for name in graph.inputs:
        sizes = [size if isinstance(size, int) else 1 for size in graph.types[name].shape or ()]
        feeds[name] = draw.uniform(0, 1, sizes).astype(np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(str(models / file), options, providers=["CPUExecutionProvider"])
    found = run_graph(graph, feeds)
    for name, want in zip(graph.outputs, session.run(list(graph.outputs), feeds), strict=True):
        np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5)
