"""What happens after a detector's last node: decode, suppress, and compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.detection import Detections, Objects, box_iou, mean_average_precision
from dovetail.compare.task import Arrays, Reference

Decode = Callable[[Arrays, int], Detections]
"""Return what the outputs say of sample `index`, suppressed."""

Floats = NDArray[np.float64]


def suppress(found: Detections, iou: float, limit: int = 300) -> Detections:
    """Return the best of every group of overlapping boxes of one class, best first (greedy NMS)."""
    finite = np.isfinite(found.boxes).all(axis=1) & np.isfinite(found.scores)
    rows = np.flatnonzero(finite)
    rows = rows[np.argsort(-found.scores[rows], kind="stable")]
    kept: list[int] = []
    while len(rows) and len(kept) < limit:
        best, rest = int(rows[0]), rows[1:]
        kept.append(best)
        overlap = box_iou(found.boxes[best : best + 1], found.boxes[rest])[0]
        rows = rest[(overlap <= iou) | (found.classes[rest] != found.classes[best])]
    return Detections(found.boxes[kept], found.scores[kept], found.classes[kept])


@dataclass(frozen=True, slots=True)
class YoloRows:
    """Decode rows of (cx, cy, w, h, object, class 0, ...) of one output `[N, rows, 5 + classes]`."""

    output: str
    min_score: float
    iou: float

    def __call__(self, outputs: Arrays, index: int) -> Detections:
        """Return what the outputs say of one sample."""
        rows = np.asarray(outputs[self.output][index], np.float64)
        scores = rows[:, 4:5] * rows[:, 5:]
        cells, classes = np.nonzero(scores >= self.min_score)
        centre, half = rows[cells, :2], rows[cells, 2:4] / 2
        boxes = np.concatenate([centre - half, centre + half], axis=1)
        return suppress(Detections(boxes, scores[cells, classes], classes.astype(np.int64)), self.iou)


@dataclass(frozen=True, slots=True)
class ScoredCorners:
    """Decode corners `[N, K, 4]` with scores `[N, K, 2]` whose last column is the object's."""

    boxes: str
    scores: str
    min_score: float
    iou: float

    def __call__(self, outputs: Arrays, index: int) -> Detections:
        """Return what the outputs say of one sample."""
        scores = np.asarray(outputs[self.scores][index], np.float64)[:, -1]
        rows = np.flatnonzero(scores >= self.min_score)
        boxes = np.asarray(outputs[self.boxes][index], np.float64)[rows]
        return suppress(Detections(boxes, scores[rows], np.zeros(len(rows), np.int64)), self.iou)


@dataclass(frozen=True, slots=True)
class Ap50:
    """Average precision at IoU 0.5 against labelled boxes; exists for a set only."""

    decode: Decode
    name: str = "AP50"
    higher_is_better: bool = True
    reference: Reference = Reference.LABELS

    def per_sample(self, outputs: Arrays, labels: Arrays) -> None:
        """Return None: precision ranks the detections of all samples together."""
        return

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        """Return the mean over the classes that are labelled."""
        boxes = np.asarray(labels["boxes"], np.float64)
        found = [self.decode(outputs, index) for index in range(len(boxes))]
        real = [objects_of(rows) for rows in boxes]
        return mean_average_precision(found, real, (0.5,))


@dataclass(frozen=True, slots=True)
class DetectionF1:
    """F1 of the detections sample by sample, pairs matched at IoU 0.5 or more.

    Against the float model's detections, or against labelled boxes.
    """

    decode: Decode
    reference: Reference = Reference.GOLDEN
    higher_is_better: bool = True

    @property
    def name(self) -> str:
        """Return the name, which says what the detections are compared with."""
        return "F1 against float" if self.reference is Reference.GOLDEN else "F1 against labels"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        """Return `[N]`; 1 where there is nothing and nothing is found."""
        count = len(next(iter(outputs.values())))
        return np.array([f1(self.decode(outputs, item), self._real(labels, item)) for item in range(count)])

    def _real(self, labels: Arrays, index: int) -> Detections:
        if self.reference is Reference.GOLDEN:
            return self.decode(labels, index)
        objects = objects_of(np.asarray(labels["boxes"][index], np.float64))
        return Detections(objects.boxes, np.ones(len(objects.classes)), objects.classes)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        """Return the mean over the samples."""
        return float(self.per_sample(outputs, labels).mean())


def objects_of(rows: Floats) -> Objects:
    """Return the labelled objects in rows of (class, x1, y1, x2, y2); rows with a negative class are padding."""
    real = rows[rows[:, 0] >= 0]
    return Objects(real[:, 1:], real[:, 0].astype(np.int64))


def f1(found: Detections, real: Detections, iou: float = 0.5) -> float:
    """Return 2 * pairs / (found + real), best detection first; 1 when both are empty."""
    total = len(found.scores) + len(real.scores)
    if total == 0:
        return 1.0
    overlap = box_iou(found.boxes, real.boxes)
    overlap[found.classes[:, None] != real.classes[None, :]] = 0.0
    pairs = 0
    for row in range(len(found.scores)):
        best = int(overlap[row].argmax()) if overlap.shape[1] else -1
        if best >= 0 and overlap[row, best] >= iou:
            pairs += 1
            overlap[:, best] = 0.0
    return 2 * pairs / total
