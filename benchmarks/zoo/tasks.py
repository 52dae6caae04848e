"""Search problems: a model, samples in arrays, and a score for every sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

import dovetail
from dovetail.compare import load_metric
from dovetail.compare.task import Arrays, Reference, TaskMetric, callable_metric
from dovetail.data import split
from zoo.case import Case
from zoo.detection import Floats

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


def bench_a(folder: Path) -> Task:
    """Return the search benchmark A of the collection."""
    with np.load(folder / "data.npz", allow_pickle=False) as file:
        calibration, inputs = file["calib"], file["val"]
        labels = {"label": file["lab"], "box": file["box"]}
    metric = callable_metric(_bench_a_score, "bench A")
    return Task("bench A", folder / "model.onnx", "x", calibration, inputs, labels, metric, "0.01")


def from_case(case: Case, root: Path, goal: str) -> Task:
    """Return a model of the collection as a search problem; it has one input, and a score for every sample."""
    graph = dovetail.normalize(dovetail.load_model(root / case.file))
    data = case.open(graph, root)
    (name,) = graph.inputs
    inputs = np.concatenate([sample.inputs[name] for sample in data.samples])
    batch = 1 if graph.types[name].shape and graph.types[name].shape[0] == 1 else 32
    task = Task(
        case.name,
        root / case.file,
        name,
        np.concatenate([sample.inputs[name] for sample in data.calibration]),
        inputs,
        _labels([sample.labels for sample in data.samples]),
        data.metric,
        goal,
        batch,
    )
    return replace(task, labels=_golden(task)) if data.metric.reference is Reference.GOLDEN else task


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
