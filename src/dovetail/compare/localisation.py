"""Task metrics on boxes and masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.detection import Objects, mask_iou, mean_average_precision
from dovetail.compare.task import Arrays, Reference, pick, sample_count
from dovetail.errors import DataError
from dovetail.outputs.decode.detections import Detections, box_iou

COCO_IOUS = tuple(round(0.5 + 0.05 * i, 2) for i in range(10))


@dataclass(frozen=True, slots=True)
class DetectionAp:
    """Average precision of an output `[N, K, 6]`: x1, y1, x2, y2, score, class.

    Rows with a score <= 0 are padding. Labels are boxes `[N, M, 5]`: class, x1, y1, x2, y2, in the same
    pixels, padded with rows of -1. Decode and suppress raw heads first. Exists for a set only.
    """

    name: str
    ious: tuple[float, ...] = (0.5,)
    output: str | None = None
    label: str | None = None
    higher_is_better: bool = True
    reference: Reference = Reference.LABELS

    def per_sample(self, outputs: Arrays, labels: Arrays) -> None:
        return None

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        rows = pick(outputs, self.output, "output", lambda a: a.ndim == 3 and a.shape[2] == 6)
        boxes = pick(labels, self.label, "label of boxes [N, M, 5]", lambda a: a.ndim == 3 and a.shape[2] == 5)
        if rows.ndim != 3 or rows.shape[2] != 6 or boxes.ndim != 3 or boxes.shape[2] != 5:
            raise DataError(f"metric {self.name!r}: output {list(rows.shape)}, labels {list(boxes.shape)}.")
        return mean_average_precision([_detections(r) for r in rows], [_objects(b) for b in boxes], self.ious)


def _detections(rows: NDArray[Any]) -> Detections:
    """Drop padding and rows that are not finite: a broken detection is no detection."""
    values = rows.astype(np.float64)
    values = values[np.isfinite(values).all(axis=1) & (values[:, 4] > 0)]
    return Detections(values[:, :4], values[:, 4], np.rint(values[:, 5]).astype(np.int64))


def _objects(rows: NDArray[Any]) -> Objects:
    values = rows.astype(np.float64)
    values = values[values[:, 0] >= 0]
    return Objects(values[:, 1:], np.rint(values[:, 0]).astype(np.int64))


@dataclass(frozen=True, slots=True)
class BoxIou:
    """IoU of one box `[N, 4]` (x1, y1, x2, y2) with the labelled one `[N, 4]`; a box with NaN scores 0."""

    name: str = "box_iou"
    output: str | None = None
    label: str | None = None
    higher_is_better: bool = True
    reference: Reference = Reference.LABELS

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        measured = pick(outputs, self.output, "output [N, 4]", _four).reshape(-1, 4).astype(np.float64)
        real = pick(labels, self.label, "label [N, 4]", _four).reshape(-1, 4).astype(np.float64)
        if measured.shape != real.shape or len(real) != sample_count(outputs):
            raise DataError(f"metric {self.name!r}: {len(measured)} boxes, {len(real)} labels.")
        usable = np.asarray(np.isfinite(measured).all(axis=1))
        pairs = zip(np.where(usable.reshape(-1, 1), measured, 0.0), real, strict=True)
        return np.array([box_iou(a[None], b[None])[0, 0] for a, b in pairs]) * usable

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        return float(np.mean(self.per_sample(outputs, labels)))


def _four(array: NDArray[Any]) -> bool:
    return array.ndim >= 2 and array.size == 4 * array.shape[0]


@dataclass(frozen=True, slots=True)
class MeanIou:
    """Mean IoU of class scores `[N, C, H, W]` with masks of class ids `[N, H, W]`, image by image.

    A mask value outside 0..C-1 (255 is usual) is void.
    """

    name: str = "miou"
    output: str | None = None
    label: str | None = None
    higher_is_better: bool = True
    reference: Reference = Reference.LABELS

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        scores = pick(outputs, self.output, "output [N, C, H, W]", lambda a: a.ndim == 4)
        masks = pick(labels, self.label, "label [N, H, W]", lambda a: a.ndim == 3 and a.dtype.kind in "iu")
        if scores.ndim != 4 or masks.shape != (scores.shape[0], *scores.shape[2:]):
            raise DataError(f"metric {self.name!r}: output {list(scores.shape)}, labels {list(masks.shape)}.")
        measured = np.argmax(np.nan_to_num(scores.astype(np.float64), nan=-np.inf), axis=1)
        pairs = zip(masks.astype(np.int64), measured, strict=True)
        return np.array([mask_iou(mask, found, scores.shape[1]) for mask, found in pairs])

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        return float(np.mean(self.per_sample(outputs, labels)))
