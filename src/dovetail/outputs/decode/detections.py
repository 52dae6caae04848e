"""Boxes: how much two overlap, and which of many stand for one object."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MOST = 300
"""Most boxes that a picture keeps after suppression, as is usual."""


class Detections(NamedTuple):
    """What was found in one image: boxes `[K, 4]` (x1, y1, x2, y2), scores `[K]`, classes `[K]`."""

    boxes: Floats
    scores: Floats
    classes: NDArray[np.int64]


def box_iou(a: Floats, b: Floats) -> Floats:
    """Return the IoU `[K, M]` of boxes `[K, 4]` and `[M, 4]`; 0 where both areas are 0."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = np.prod(np.clip(high - low, 0.0, None), axis=2)
    area_a = np.prod(np.clip(a[:, 2:] - a[:, :2], 0.0, None), axis=1)
    area_b = np.prod(np.clip(b[:, 2:] - b[:, :2], 0.0, None), axis=1)
    union = area_a[:, None] + area_b[None, :] - common
    return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=union > 0), dtype=np.float64)


def suppress(found: Detections, iou: float, most: int = _MOST) -> Detections:
    """Return the best of every group of overlapping boxes of one class, best first (greedy suppression).

    Boxes and scores that are not finite are no detections.
    """
    rows = np.flatnonzero(np.isfinite(found.boxes).all(axis=1) & np.isfinite(found.scores))
    rows = rows[np.argsort(-found.scores[rows], kind="stable")]
    x1, y1, x2, y2 = np.ascontiguousarray(found.boxes.T)
    areas = np.maximum(x2 - x1, 0.0) * np.maximum(y2 - y1, 0.0)
    kept: list[int] = []
    while len(rows) and len(kept) < most:
        best, rest = rows[0], rows[1:]
        kept.append(int(best))
        # box_iou of one against many, without its copies: a picture may need this hundreds of times.
        wide = np.minimum(x2[best], x2[rest]) - np.maximum(x1[best], x1[rest])
        high = np.minimum(y2[best], y2[rest]) - np.maximum(y1[best], y1[rest])
        common = np.maximum(wide, 0.0) * np.maximum(high, 0.0)
        union = areas[best] + areas[rest] - common
        overlap = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
        rows = rest[(overlap <= iou) | (found.classes[rest] != found.classes[best])]
    return Detections(found.boxes[kept], found.scores[kept], found.classes[kept])
