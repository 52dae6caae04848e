"""Run a model file in its own framework.

ONNX Runtime and LiteRT run here, OpenCV stands for Caffe and Darknet, which have no packages any more. TensorFlow,
PyTorch and Paddle run in the interpreters of `dovetail env`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from dovetail.environments import State, find_environment, state_of
from dovetail.importers import Conversion
from dovetail.ir import AnyArray

Feed = Mapping[str, AnyArray]
Outputs = list[list[AnyArray]]

_SECONDS = 1200
_ANCHORS = 3
"""Anchors of a yolo layer of the collected model."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Say what is run: a file, inputs in the order of the model's, and how it is cut where it is converted.

    `usual` takes the kernels and the state of every day: optimised, and not reset between samples.
    """

    path: Path
    feeds: Sequence[Feed]
    conversion: Conversion = field(default_factory=Conversion)
    only: str = ""
    usual: bool = False


def run_framework(ask: Ask) -> tuple[str, Outputs | None]:
    """Return the framework's name with all outputs of every feed, or the reason with None."""
    name, run = _JUDGES.get(ask.path.suffix, ("no framework here", None))
    if run is None:
        return name, None
    if name not in _ENVIRONMENTS:
        return name, run(ask)
    environment = find_environment(_ENVIRONMENTS[name])
    if state_of(environment).state is not State.READY:
        return f"no environment '{environment.name}' here", None
    return name, run(ask)


def output_pairs(found: Outputs, want: Outputs) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Yield flat outputs that belong together: by size, as formats and frameworks list them in different orders."""
    for mine, theirs in zip(found, want, strict=True):
        for a, b in zip(_by_size(mine), _by_size(theirs), strict=True):
            yield a.reshape(-1), b.reshape(-1)


def _by_size(outputs: Sequence[AnyArray]) -> list[AnyArray]:
    return sorted((np.asarray(item) for item in outputs), key=lambda item: item.size)


def relative(found: AnyArray, want: AnyArray) -> float:
    """Return the largest difference over the largest value."""
    return float(np.abs(found - want).max() / max(np.abs(want).max(), 1e-30))


def _onnx(ask: Ask) -> Outputs:
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if ask.usual else level.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(ask.path), options, providers=["CPUExecutionProvider"])
    names = {item.name for item in session.get_inputs()}
    wanted = [ask.only] if ask.only else None
    return [
        [np.asarray(item) for item in session.run(wanted, {key: value for key, value in feed.items() if key in names})]
        for feed in ask.feeds
    ]


def _lite(ask: Ask) -> Outputs:
    kind = OpResolverType.AUTO if ask.usual else OpResolverType.BUILTIN_REF
    runner = Interpreter(str(ask.path), experimental_op_resolver_type=kind, num_threads=1)
    runner.allocate_tensors()
    found: Outputs = []
    for feed in ask.feeds:
        if not ask.usual:
            runner.reset_all_variables()
        for item, value in zip(runner.get_input_details(), feed.values(), strict=True):
            runner.set_tensor(item["index"], value)
        runner.invoke()
        found.append([np.array(runner.get_tensor(item["index"])) for item in runner.get_output_details()])
    return found


def _caffe(ask: Ask) -> Outputs:
    network = cv2.dnn.readNetFromCaffe(str(ask.path), str(next(ask.path.parent.glob("*.caffemodel"))))
    return _opencv(network, ask, [ask.only] if ask.only else list(network.getUnconnectedOutLayersNames()))


def _darknet(ask: Ask) -> Outputs:
    """Return what Darknet's yolo layers give, from OpenCV's convolutions: its own layer decodes and suppresses too."""
    network = cv2.dnn.readNetFromDarknet(str(ask.path), str(ask.path.with_suffix(".weights")))
    layers = network.getLayerNames()
    # OpenCV puts a permutation between the last convolution and the yolo layer.
    heads = [layers[layers.index(name) - 2] for name in network.getUnconnectedOutLayersNames()]
    return [[_logistic(item) for item in found] for found in _opencv(network, ask, heads)]


def _logistic(grid: AnyArray) -> AnyArray:
    """Return `[N, A * (5 + classes), H, W]` with centres, objectness and classes made logistic, sizes as they are."""
    cells = grid.reshape(grid.shape[0], _ANCHORS, -1, *grid.shape[2:]).astype(np.float64)
    sizes = cells[:, :, 2:4].copy()
    cells = 1 / (1 + np.exp(-cells))
    cells[:, :, 2:4] = sizes
    return np.asarray(cells.reshape(grid.shape))


def _opencv(network: cv2.dnn.Net, ask: Ask, names: list[str]) -> Outputs:
    found: Outputs = []
    for feed in ask.feeds:
        network.setInput(next(iter(feed.values())))
        found.append([np.array(item) for item in network.forward(names)])
    return found


def _foreign(framework: str) -> Callable[[Ask], Outputs]:
    def run(ask: Ask) -> Outputs:
        python = state_of(find_environment(_ENVIRONMENTS[framework])).python
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            request = {
                "framework": framework,
                "model": str(ask.path.resolve()),
                "inputs": list(ask.conversion.inputs),
                "outputs": list(ask.conversion.outputs),
                "submodule": ask.conversion.submodule,
                "feeds": len(ask.feeds),
            }
            (folder / "request.json").write_text(json.dumps(request))
            for index, feed in enumerate(ask.feeds):
                np.savez(folder / f"{index}.npz", *feed.values())
            script = Path(__file__).with_name("foreign.py")
            done = subprocess.run(
                [str(python), str(script), name], capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            if done.returncode:
                raise RuntimeError(f"{framework} on {ask.path}: {done.stderr.strip()[-800:]}")
            return [_arrays(folder / f"out{index}.npz") for index in range(len(ask.feeds))]

    return run


def _arrays(path: Path) -> list[AnyArray]:
    with np.load(path, allow_pickle=False) as held:
        return [held[name] for name in held.files]


_ENVIRONMENTS = {"TensorFlow": "tensorflow", "PyTorch": "torch", "Paddle": "paddle-pir"}
_JUDGES: Mapping[str, tuple[str, Callable[[Ask], Outputs]]] = {
    ".onnx": ("ONNX Runtime", _onnx),
    ".tflite": ("LiteRT", _lite),
    ".prototxt": ("OpenCV", _caffe),
    ".cfg": ("OpenCV", _darknet),
    ".pb": ("TensorFlow", _foreign("TensorFlow")),
    ".jit": ("PyTorch", _foreign("PyTorch")),
    ".pdmodel": ("Paddle", _foreign("Paddle")),
}
