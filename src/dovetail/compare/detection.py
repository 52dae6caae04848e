"""Boxes, masks and average precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DataError
from dovetail.outputs.decode.detections import Detections, box_iou

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Objects:
    """What is really in one image: boxes `[M, 4]` and classes `[M]`."""

    boxes: Floats
    classes: NDArray[np.int64]


def mask_iou(golden: NDArray[np.int64], measured: NDArray[np.int64], class_count: int) -> float:
    """Return the mean IoU over the classes that occur in either mask of class ids.

    Where `golden` is outside 0..class_count-1 the pixel is void and left out.
    """
    known = (golden >= 0) & (golden < class_count)
    a, b = golden[known], measured[known]
    scores = []
    for label in np.union1d(a, b):
        both, either = (
            np.count_nonzero((a == label) & (b == label)),
            np.count_nonzero((a == label) | (b == label)),
        )
        scores.append(both / either)
    if not scores:
        raise DataError("mean IoU: the mask holds no labelled pixel.")
    return float(np.mean(scores))


def average_precision(
    found: Sequence[Detections], real: Sequence[Objects], iou: float, label: int, recalls: int = 0
) -> float:
    """Return the average precision of one class: the area under the precision envelope at all recall points.

    Detections of all images go by falling score, and each takes the free object of its image with the highest
    IoU of at least `iou`, as in COCO. COCO then takes the mean of the envelope at 101 even recalls from 0 to 1, which
    `recalls` asks for; without it this is the exact area (VOC 2010).
    Raises DataError when no image has an object of the class.
    """
    total = sum(int(np.count_nonzero(objects.classes == label)) for objects in real)
    if total == 0:
        raise DataError(f"average precision: no object of class {label} is labelled.")
    scores, hits = [], []
    for detections, objects in zip(found, real, strict=True):
        mine = detections.classes == label
        order = np.argsort(-detections.scores[mine], kind="stable")
        scores.append(detections.scores[mine][order])
        hits.append(_match(detections.boxes[mine][order], objects.boxes[objects.classes == label], iou))
    ranked = np.argsort(-np.concatenate(scores), kind="stable")
    true = np.concatenate(hits)[ranked]
    precision = np.cumsum(true) / np.arange(1, true.size + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    if recalls:
        reached = np.searchsorted(np.cumsum(true) / total, np.linspace(0, 1, recalls), side="left")
        return float(np.sum(np.append(envelope, 0.0)[reached]) / recalls)
    return float(np.sum(envelope[true]) / total)


def _match(boxes: Floats, objects: Floats, iou: float) -> NDArray[np.bool_]:
    """Tell which boxes, best first, take an object that no better box has taken."""
    overlaps = box_iou(boxes, objects)
    hit = np.zeros(len(boxes), dtype=np.bool_)
    for row in range(len(boxes) if len(objects) else 0):
        best = int(np.argmax(overlaps[row]))
        if overlaps[row, best] >= iou:
            hit[row] = True
            overlaps[:, best] = -1.0
    return hit


def mean_average_precision(
    detections: Sequence[Detections], real: Sequence[Objects], ious: Sequence[float], recalls: int = 0
) -> float:
    """Return the mean over classes that have an object, and over IoU thresholds.

    Raises DataError when nothing is labelled or the numbers of images differ.
    """
    if len(detections) != len(real):
        raise DataError(f"average precision: {len(detections)} images were run, {len(real)} are labelled.")
    labels = sorted({int(label) for objects in real for label in objects.classes})
    if not labels or not ious:
        raise DataError("average precision: no object is labelled.")
    return float(
        np.mean([average_precision(detections, real, iou, label, recalls) for iou in ious for label in labels])
    )
