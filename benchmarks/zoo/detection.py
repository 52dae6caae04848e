"""What happens after a detector's last node: decode, suppress, and compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.detection import Objects, mean_average_precision
from dovetail.compare.task import Arrays, Reference
from dovetail.ir import AnyArray
from dovetail.outputs.decode.detections import Detections

Decode = Callable[[Arrays, int], Detections]
"""Return what the outputs say of sample `index`, suppressed."""

Floats = NDArray[np.float64]


Outputs = Mapping[str, AnyArray]
"""The outputs of one sample, its batch axis included."""
Rows = tuple[Floats, Floats]
"""Corners `[N, 4]` in pixels of the input, and scores `[N, classes]`."""

_DARKNET_SIDE, _DARKNET_CLASSES = 320, 80
_DARKNET_ANCHORS = ((12, 18), (37, 49), (52, 132), (115, 73), (119, 199), (242, 238))
_DARKNET_MASKS = ((3, 4, 5), (0, 1, 2))
_REGION_LEAST = 0.2
"""OpenCV's Darknet layer drops lower scores; the manifest's figures come from it."""


def overlaps(box: Floats, others: Floats) -> Floats:
    """Return the IoU of one box with `[K, 4]` others.

    What judges here shares no code with the metrics that are judged: a mistake in both would not be seen.
    """
    width = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    height = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    common = np.where((width > 0) & (height > 0), width * height, 0.0)
    sizes = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    union = (box[2] - box[0]) * (box[3] - box[1]) + sizes - common
    return np.asarray(np.where(union > 0, common / np.where(union > 0, union, 1.0), 0.0), np.float64)


def suppress(found: Detections, iou: float, most: int = 300) -> Detections:
    """Return the surest box of those of one class that overlap by more than `iou`, the surest first."""
    usable = np.isfinite(found.scores) & np.isfinite(found.boxes).all(axis=1)
    order = [int(row) for row in np.argsort(-found.scores, kind="stable") if usable[row]]
    kept: list[int] = []
    while order and len(kept) < most:
        kept.append(order.pop(0))
        share = overlaps(found.boxes[kept[-1]], found.boxes[order])
        rivals = (share > iou) & (found.classes[order] == found.classes[kept[-1]])
        order = [row for row, rival in zip(order, rivals, strict=True) if not rival]
    return Detections(found.boxes[kept], found.scores[kept], found.classes[kept])


def yolox_rows(outputs: Outputs) -> Rows:
    """Return what YOLOX says that decodes in the graph."""
    (rows,) = (np.asarray(value[0], np.float64) for value in outputs.values())
    half = rows[:, 2:4] / 2
    return np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1), rows[:, 4:5] * rows[:, 5:]


def raw_yolox_rows(outputs: Outputs) -> Rows:
    """Return what YOLOX says whose offsets and logarithms leave the graph as they are."""
    (rows,) = (np.array(value[0], np.float64) for value in outputs.values())
    start = 0
    for stride in (8, 16, 32):
        side = 416 // stride
        y, x = np.divmod(np.arange(side * side), side)
        part = rows[start : start + side * side]
        part[:, :2] = (part[:, :2] + np.stack([x, y], axis=1)) * stride
        part[:, 2:4] = np.exp(np.minimum(part[:, 2:4], 20.0)) * stride
        start += side * side
    return yolox_rows({"": rows[None]})


def darknet_rows(outputs: Outputs) -> Rows:
    """Return what YOLO-Fastest says."""
    heads = [
        _darknet_head(np.asarray(grid[0], np.float64), mask)
        for grid, mask in zip(outputs.values(), _DARKNET_MASKS, strict=True)
    ]
    return np.concatenate([head[0] for head in heads]), np.concatenate([head[1] for head in heads])


def _darknet_head(grid: Floats, mask: tuple[int, ...]) -> Rows:
    """Return the boxes of a yolo layer `[A * (5 + classes), H, W]`."""
    _, height, width = grid.shape
    cells = grid.reshape(len(mask), 5 + _DARKNET_CLASSES, height, width)
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    sizes = np.array([_DARKNET_ANCHORS[item] for item in mask], np.float64)[:, :, None, None]
    centre = np.stack([(cells[:, 0] + columns) / width, (cells[:, 1] + rows) / height], axis=1) * _DARKNET_SIDE
    half = np.exp(cells[:, 2:4]) * sizes / 2
    corners = np.concatenate([centre - half, centre + half], axis=1).transpose(0, 2, 3, 1).reshape(-1, 4)
    scores = (cells[:, 4:5] * cells[:, 5:]).transpose(0, 2, 3, 1).reshape(-1, _DARKNET_CLASSES)
    return corners, np.where(scores > _REGION_LEAST, scores, 0.0)


@dataclass(frozen=True, slots=True)
class BestRows:
    """Decode rows as the collection's figures are measured: the best class of a box, overlapping ones suppressed."""

    read: Callable[[Outputs], Rows]
    min_score: float = 0.05
    iou: float = 0.45

    def __call__(self, outputs: Arrays, index: int) -> Detections:
        """Return what the outputs say of one sample."""
        corners, scores = self.read({name: values[index : index + 1] for name, values in outputs.items()})
        best = np.nan_to_num(scores, nan=0.0).max(axis=1)
        kept = best > self.min_score
        found = Detections(corners[kept], best[kept], scores[kept].argmax(axis=1))
        return suppress(found, self.iou)


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
    free = np.ones(len(real.scores), bool)
    pairs = 0
    for box, label in zip(found.boxes, found.classes, strict=True):
        share = np.where(free & (real.classes == label), overlaps(box, real.boxes), 0.0)
        if share.max(initial=0.0) >= iou:
            pairs += 1
            free[share.argmax()] = False
    return 2 * pairs / total
