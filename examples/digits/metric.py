"""Score the digit detector: one point a sample for the right digit in the right place.

Outputs: `detections` [N, cells, 5 + classes], a row being `(cx, cy, w, h, object, class 0, class 1, ...)`.
Labels: `label` [N] and `box` [N, 4] as `(cx, cy, w, h)` in the same pixels as the boxes of the output.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

OUTPUT = "detections"
MIN_CONFIDENCE = 0.25
MIN_IOU = 0.5
_BOX, _OBJECT, _CLASSES = slice(0, 4), 4, slice(5, None)


def box_iou(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the intersection over union [N] of boxes [N, 4] (cx, cy, w, h); 0 for empty boxes."""
    low = np.maximum(a[:, :2] - a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2)
    high = np.minimum(a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2)
    shared = np.clip(high - low, 0.0, None).prod(axis=1)
    union = a[:, 2:].prod(axis=1) + b[:, 2:].prod(axis=1) - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0), np.float64)


def score(
    outputs: Mapping[str, npt.NDArray[np.generic]], labels: Mapping[str, npt.NDArray[np.generic]]
) -> npt.NDArray[np.float64]:
    """Return 1 or 0 for each sample [N]: the most confident cell and class must be right.

    Confidence is object * class. A point needs a confidence of at least `MIN_CONFIDENCE`, the labelled class,
    and an IoU of at least `MIN_IOU` with the labelled box; a NaN in the winning row gives 0.
    Raises ValueError when the shapes do not fit.
    """
    found = np.asarray(outputs[OUTPUT], np.float64)
    wanted, box = np.asarray(labels["label"]), np.asarray(labels["box"], np.float64)
    fits = wanted.shape == found.shape[:1] and box.shape == (*found.shape[:1], 4)
    if found.ndim != 3 or found.shape[2] < 6 or not fits:
        raise ValueError(
            f"{OUTPUT} {found.shape}, label {wanted.shape} and box {box.shape} do not fit: "
            "expected [N, cells, 5 + classes], [N] and [N, 4]"
        )
    confidence = found[:, :, _OBJECT, None] * found[:, :, _CLASSES]
    classes = confidence.shape[2]
    winner = confidence.reshape(len(found), -1).argmax(axis=1)
    rows, cells = np.arange(len(found)), winner // classes
    sure = confidence.reshape(len(found), -1)[rows, winner] >= MIN_CONFIDENCE
    overlap = box_iou(found[rows, cells, _BOX], box)
    return np.asarray(sure & (winner % classes == wanted) & (overlap >= MIN_IOU), np.float64)
