"""Run Graphs and ONNX models through ONNX Runtime on the CPU, one thread, for comparison in tests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime as ort
from onnx import ModelProto

from dovetail.exporters import to_onnx
from dovetail.ir import AnyArray, Graph

_SILENT = 4


def run_model(model: ModelProto | bytes, feeds: Mapping[str, AnyArray], optimise: bool = True) -> list[AnyArray]:
    """Return the outputs of a model; `optimise` off keeps ONNX Runtime from fusing integer kernels."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = _SILENT
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    wanted = {item.name for item in session.get_inputs()}
    return [np.asarray(value) for value in session.run(None, {k: v for k, v in feeds.items() if k in wanted})]


def run_graph(graph: Graph, feeds: Mapping[str, AnyArray], optimise: bool = True) -> list[AnyArray]:
    """Return the outputs of a graph."""
    return run_model(to_onnx(graph), feeds, optimise)


def random_feeds(graph: Graph, seed: int = 0, batch: int = 1) -> dict[str, AnyArray]:
    """Return normally distributed floats, or small integers, for every graph input; symbolic sizes are `batch`."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, AnyArray] = {}
    for name in graph.inputs:
        kind = graph.types[name]
        shape = [dim if isinstance(dim, int) else batch for dim in kind.shape or ()]
        values = rng.standard_normal(shape) if kind.dtype.is_float else rng.integers(0, 2, shape)
        feeds[name] = values.astype(kind.dtype.carrier)
    return feeds


def relative_difference(one: AnyArray, other: AnyArray) -> float:
    """Return the largest difference over the largest magnitude; 0 for empty arrays."""
    if one.size == 0:
        return 0.0
    one64, other64 = one.astype(np.float64), other.astype(np.float64)
    return float(np.abs(one64 - other64).max() / max(float(np.abs(one64).max()), 1e-6))
