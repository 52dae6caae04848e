"""Search problems: a model, samples in arrays, and a score for every sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.compare import load_metric
from dovetail.compare.task import Arrays, TaskMetric, callable_metric
from dovetail.data import split
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
