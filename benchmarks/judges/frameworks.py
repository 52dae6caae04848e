"""Run a model file in its own framework, where that is here: ONNX Runtime for .onnx, LiteRT for .tflite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from dovetail.ir import AnyArray


def run_framework(path: Path, feeds: Sequence[Mapping[str, AnyArray]], only: str = "") -> list[list[AnyArray]] | None:
    """Return all outputs, or only one of an ONNX file, for every set of inputs; None where no framework reads it."""
    if path.suffix == ".onnx":
        return _onnx(path, feeds, [only] if only else None)
    return _lite(path, feeds) if path.suffix == ".tflite" else None


def _onnx(path: Path, feeds: Sequence[Mapping[str, AnyArray]], wanted: list[str] | None) -> list[list[AnyArray]]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = {item.name for item in session.get_inputs()}
    return [
        [np.asarray(item) for item in session.run(wanted, {key: value for key, value in feed.items() if key in names})]
        for feed in feeds
    ]


def _lite(path: Path, feeds: Sequence[Mapping[str, AnyArray]]) -> list[list[AnyArray]]:
    runner = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    runner.allocate_tensors()
    found: list[list[AnyArray]] = []
    for feed in feeds:
        runner.reset_all_variables()
        for item, value in zip(runner.get_input_details(), feed.values(), strict=True):
            runner.set_tensor(item["index"], value)
        runner.invoke()
        found.append([np.array(runner.get_tensor(item["index"])) for item in runner.get_output_details()])
    return found
