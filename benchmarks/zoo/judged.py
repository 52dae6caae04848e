"""Models for the judge: float files, what other tools make of them, and their scores on runtimes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dovetail
from dovetail.ir import AnyArray
from zoo.accepted import top1
from zoo.vision import CASES

_SCRIPT = Path(__file__).with_name("quantisers.py")
_LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class JudgedSamples:
    """Inputs `[N, ...]` to calibrate on and others to score on, with the classes that each of these accepts."""

    calibration: AnyArray
    inputs: AnyArray
    accepted: AnyArray


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A float model of the collection in ONNX or TFLite, and files that its makers quantised."""

    name: str
    onnx: str
    tflite: str
    shipped: Mapping[str, str]
    open: Callable[[Path], JudgedSamples]


@dataclass(frozen=True, slots=True)
class MadeFile:
    """What one tool made of a model; no path with the reason where it made none."""

    tool: str
    path: Path | None
    seconds: float
    reason: str = ""


def make_file(case: JudgedCase, tool: str, python: str, root: Path, folder: Path) -> MadeFile:
    """Quantise a case with a tool in the environment that has it."""
    source = case.tflite if tool == "ai-edge" else case.onnx
    if not source:
        return MadeFile(tool, None, 0.0, "the collection has no float file that it reads")
    made = folder / f"{case.name}.{tool}{Path(source).suffix}"
    samples = folder / f"{case.name}.calibration.npz"
    np.savez(samples, x=case.open(root).calibration)
    start = time.monotonic()
    call = [python, str(_SCRIPT), tool, str((root / source).absolute()), str(samples), str(made)]
    # Some tools leave tables where they are started.
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    seconds = time.monotonic() - start
    if done.returncode != 0 or not made.is_file():
        told = [line for line in done.stderr.splitlines() if line.strip()]
        return MadeFile(tool, None, seconds, told[-1][:120] if told else "it wrote no file")
    return MadeFile(tool, made, seconds)


def own_score(path: Path, samples: JudgedSamples) -> float:
    """Return the score of a file on the runtime that it is made for: ONNX Runtime, or LiteRT."""
    outputs = _litert(path, samples.inputs) if path.suffix == ".tflite" else _onnxruntime(path, samples.inputs)
    return float(np.mean(top1({"y": outputs}, {"accepted": samples.accepted})))


def write_samples(samples: JudgedSamples, path: Path) -> Path:
    """Write the samples to score on as `dovetail judge` takes them."""
    np.savez(path, x=samples.inputs, accepted=samples.accepted)
    return path


def _onnxruntime(path: Path, inputs: AnyArray) -> AnyArray:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: item[None]})[0] for item in inputs])


def _litert(path: Path, inputs: AnyArray) -> AnyArray:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    (source,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    rows: list[AnyArray] = []
    for item in inputs:
        interpreter.set_tensor(source["index"], _stored(item[None], source))
        interpreter.invoke()
        rows.append(interpreter.get_tensor(made["index"]).copy())
    return np.concatenate(rows)


def _stored(value: AnyArray, details: Mapping[str, Any]) -> AnyArray:
    scale, zero = details["quantization"]
    if not scale:
        return value.astype(details["dtype"])
    info = np.iinfo(details["dtype"])
    return np.clip(np.rint(value / scale) + zero, info.min, info.max).astype(details["dtype"])


def _resnet(root: Path) -> JudgedSamples:
    with np.load(root / "data_cifar10" / "ic01_200.npz", allow_pickle=False) as file:
        calibration, inputs, labels = file["calib"], file["x"], file["label"]
    return JudgedSamples(calibration.astype(np.float32), inputs.astype(np.float32), labels[:, None])


def _mobilenet(root: Path) -> JudgedSamples:
    case = next(item for item in CASES if item.name == "mobilenet_v1_0.25_128")
    graph = dovetail.normalize(dovetail.load_model(root / case.file))
    found, (name,) = case.open(graph, root), graph.inputs
    calibration, inputs = (
        np.concatenate([item.inputs[name] for item in side]) for side in (found.calibration, found.samples)
    )
    rows = [np.atleast_1d(item.labels["accepted_imagenet_idx_0based"]) for item in found.samples]
    accepted = np.full((len(rows), max(map(len, rows))), -1)
    for index, row in enumerate(rows):
        accepted[index, : len(row)] = row
    return JudgedSamples(calibration, inputs, accepted)


def _mnist(root: Path) -> JudgedSamples:
    with np.load(root / "data_mnist" / "t10k_1000.npz", allow_pickle=False) as file:
        pixels = next(file[name] for name in file.files if file[name].ndim >= 3)
        labels = next(file[name] for name in file.files if file[name].ndim == 1 and file[name].dtype.kind in "iu")
    images = (pixels.reshape(-1, 28, 28, 1) / 255).astype(np.float32)
    return JudgedSamples(images[:100], images[100:400], labels[100:400, None].astype(np.int64))


JUDGED_CASES = (
    JudgedCase(
        "resnet8",
        "ic01_resnet8_cifar10/resnet8_float.onnx",
        "ic01_resnet8_cifar10/resnet8_float.tflite",
        {"shipped int8 TFLite": "ic01_resnet8_cifar10/resnet8_int8.tflite"},
        _resnet,
    ),
    JudgedCase("mobilenet_0.25_128", "mbv1_025_128_imagenet/mbnet128_0.25_f.onnx", "", {}, _mobilenet),
    JudgedCase(
        "mnist_conv_fc",
        "",
        "mnist_conv_fc/conv_fc_mnist.tflite",
        {"shipped int8 TFLite": "mnist_conv_fc/conv_fc_mnist_srq_a8w8.tflite"},
        _mnist,
    ),
)


def python_of(given: Mapping[str, str], tool: str) -> str:
    """Return the interpreter for a tool: as given, else this one."""
    return given.get(tool, sys.executable)
