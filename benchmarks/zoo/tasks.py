"""Search problems: a model, samples in arrays, and a score for every sample."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from numpy.typing import NDArray

import dovetail
from dovetail.compare import load_metric
from dovetail.compare.task import Arrays, Reference, TaskMetric, callable_metric
from dovetail.data import split
from zoo.case import Case
from zoo.detection import Floats

_OPSET = 13
_TARGET = ("vsi:v853@i8pc", "vsi:v853@i16")
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Task:
    """Hold a search problem; `inputs` and `calibration` are `[N, ...]` of the model's one input."""

    name: str
    model: Path
    input: str
    calibration: NDArray[Any]
    inputs: NDArray[Any]
    labels: Mapping[str, NDArray[Any]]
    metric: TaskMetric
    goal: str
    batch: int = 32
    """Samples that go through the model together; 1 where its batch is fixed."""
    low: str = _TARGET[0]
    high: str = _TARGET[1]

    @property
    def per_channel(self) -> bool:
        """Tell whether weights have a scale a channel, as `i8pc`; else all is unsigned and has a scale a tensor."""
        return self.low.endswith("i8pc")

    def parts(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the search and the hold-out split that `dovetail tune` makes by default."""
        held, searched = split(len(self.inputs), (0.4, 0.6), 0)
        return searched, held


def digits() -> Task:
    """Return the example of the repository."""
    folder = _ROOT / "examples" / "digits"
    with np.load(folder / "calib.npz", allow_pickle=False) as file:
        calibration = file["images"].astype(np.float32)
    with np.load(folder / "eval.npz", allow_pickle=False) as file:
        images = file["images"].astype(np.float32)
        labels = {"label": file["label"], "box": file["box"]}
    metric = load_metric(f"{folder / 'metric.py'}:score")
    return Task("digits", folder / "digits.onnx", "images", calibration, images, labels, metric, "1%")


def strict_digits(count: int = 200) -> Task:
    """Return the example with few samples and boxes that must fit so well that 8 bits move some of them out."""
    task = digits()
    spec = importlib.util.spec_from_file_location("strict_metric", _ROOT / "examples" / "digits" / "metric.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["MIN_IOU"] = 0.85
    labels = {name: values[:count] for name, values in task.labels.items()}
    metric = callable_metric(module.score, "strict")
    return replace(task, name="strict digits", inputs=task.inputs[:count], labels=labels, metric=metric, goal="1%")


def bench_a(folder: Path) -> Task:
    """Return the search benchmark A of the collection."""
    with np.load(folder / "data.npz", allow_pickle=False) as file:
        calibration, inputs = file["calib"], file["val"]
        labels = {"label": file["lab"], "box": file["box"]}
    metric = callable_metric(_bench_a_score, "bench A")
    return Task("bench A", folder / "model.onnx", "x", calibration, inputs, labels, metric, "0.01")


def from_case(case: Case, root: Path, goal: str, target: tuple[str, str] = _TARGET) -> Task:
    """Return a model of the collection as a search problem; it has one input, and a score for every sample.

    `target` names the low placement and the first step up. Every tool gets the same file: see `_prepared`.
    """
    file = _prepared(case, root)
    graph = dovetail.normalize(dovetail.load_model(file))
    data = case.open(graph, root)
    (name,) = graph.inputs
    inputs = np.concatenate([sample.inputs[name] for sample in data.samples])
    shape = graph.types[name].shape
    batch = 1 if shape and shape[0] == 1 else 32
    task = Task(
        f"{case.name}, {target[0]}",
        file,
        name,
        np.concatenate([sample.inputs[name] for sample in data.calibration]),
        inputs,
        _labels([sample.labels for sample in data.samples]),
        data.metric,
        goal,
        batch,
        *target,
    )
    return replace(task, labels=_golden(task)) if data.metric.reference is Reference.GOLDEN else task


def _prepared(case: Case, root: Path) -> Path:
    """Return a copy of a model of opset 13 or more, as NNCF demands, in which every node has a name of its own."""
    model = onnx.load(root / case.file)
    if next(item.version for item in model.opset_import if not item.domain) < _OPSET:
        # What old files list as inputs beside their weights is no input: converters and NNCF take it for one.
        weights = {item.name for item in model.graph.initializer}
        inputs = [item for item in model.graph.input if item.name not in weights]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        model = onnx.version_converter.convert_version(model, _OPSET)
    seen: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if not node.name or node.name in seen:
            node.name = f"{node.op_type}_at_{index}"
        seen.add(node.name)
    if case.shapes:
        del model.graph.value_info[:]
        for item in model.graph.input:
            for axis, size in enumerate(case.shapes[item.name]):
                item.type.tensor_type.shape.dim[axis].dim_value = size
    file = Path(tempfile.mkdtemp()) / "model.onnx"
    onnx.save(model, file)
    return file


def _labels(rows: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {key: np.stack([row[key] for row in rows]) for key in rows[0] if all(key in row for row in rows)}


def _golden(task: Task) -> dict[str, NDArray[Any]]:
    """Return what the float model says."""
    session = onnxruntime.InferenceSession(str(task.model))
    names = [item.name for item in session.get_outputs()]
    starts = range(0, len(task.inputs), task.batch)
    runs = [session.run(names, {task.input: task.inputs[start : start + task.batch]}) for start in starts]
    return {name: np.concatenate([run[index] for run in runs]) for index, name in enumerate(names)}


def _bench_a_score(outputs: Arrays, labels: Arrays) -> Floats:
    """Return 1 for each sample whose best cell and class is right: IoU of at least 0.7, score above 0.05."""
    rows = np.asarray(outputs["y"], np.float64)
    classes = rows.shape[2] - 5
    best = rows[:, :, 5:].reshape(len(rows), -1).argmax(axis=1)
    chosen = rows[np.arange(len(rows)), best // classes]
    score = chosen[np.arange(len(rows)), 5 + best % classes]
    overlap = _pair_iou(chosen[:, :4], np.asarray(labels["box"], np.float64))
    right = (best % classes == labels["label"]) & (overlap >= 0.7) & (score > 0.05)
    return np.asarray(right, np.float64)


def _pair_iou(a: Floats, b: Floats) -> Floats:
    """Return the IoU `[N]` of boxes (cx, cy, w, h) `[N, 4]`, row by row."""
    low = np.maximum(a[:, :2] - a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2)
    high = np.minimum(a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2)
    both = np.clip(high - low, 0, None).prod(axis=1)
    either = np.clip(a[:, 2:], 0, None).prod(axis=1) + b[:, 2:].prod(axis=1) - both
    return np.asarray(np.divide(both, either, out=np.zeros_like(both), where=either > 0), np.float64)
