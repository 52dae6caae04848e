"""What a detector has found in each picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.errors import DataError
from dovetail.outputs.decode.boxes import corners_of, plain_corners
from dovetail.outputs.decode.detections import Detections, suppress
from dovetail.outputs.decode.planes import Arrays, Floats, activate
from dovetail.outputs.decode.scores import place_scores
from dovetail.outputs.layouts import Activation, Columns, DenseLayout, RowsLayout

SUPPRESSION_IOU = 0.45
"""Overlap from which two boxes of a class are one object, as in most public post-processing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """From which score on a box counts, and when two boxes are one; None takes the layout's threshold."""

    threshold: float | None = None
    iou: float = SUPPRESSION_IOU
    every_class: bool = False
    """A place may be a box of several classes, as when average precision is measured; else of its best class."""


def find_detections(
    layout: DenseLayout | RowsLayout, outputs: Arrays, reading: Reading | None = None
) -> list[Detections]:
    """Return the detections of every sample, best first, in pixels of the input.

    `outputs` are `[N, ...]`. Raises DataError where outputs do not fit the layout, or where the coding of the boxes is
    not known.
    """
    how = reading or Reading()
    count = len(next(iter(outputs.values())))
    return [_one(layout, outputs, index, how) for index in range(count)]


def _one(layout: DenseLayout | RowsLayout, outputs: Arrays, index: int, how: Reading) -> Detections:
    threshold = layout.threshold if how.threshold is None else how.threshold
    arrays = {name: values[index : index + 1] for name, values in outputs.items()}
    if isinstance(layout, RowsLayout):
        found = _rows(layout, arrays, threshold)
        return found if layout.suppressed else suppress(found, how.iou)
    scores = place_scores(layout, arrays, 0)
    places, classes = _sure(scores, threshold, how.every_class)
    boxes = corners_of(layout, arrays)
    if boxes is None:
        raise DataError(
            f"detections: what the numbers of a box mean is not known ({layout.coding.value}).",
            hint="Give the coding, or the anchors.",
        )
    found = Detections(boxes[0][places], scores[places, classes], classes.astype(np.int64))
    return suppress(found, how.iou)


def _sure(scores: Floats, threshold: float, every_class: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the places and classes of the best scores from a threshold on."""
    with np.errstate(invalid="ignore"):
        if every_class:
            places, classes = np.nonzero(scores >= threshold)
        else:
            places = np.flatnonzero((scores >= threshold).any(axis=1))
            classes = np.nan_to_num(scores[places], nan=-1.0).argmax(axis=1)
    return places, classes


def _rows(layout: RowsLayout, outputs: Arrays, threshold: float) -> Detections:
    boxes = plain_corners(_columns(layout.boxes, outputs), layout.coding, layout.image if layout.unit else None)
    table = _columns(layout.scores, outputs)
    if layout.classes is not None:
        scores = table[:, 0]
        classes = np.nan_to_num(_columns(layout.classes, outputs)[:, 0])
    else:
        wanted = Activation.SIGMOID if layout.background is None else Activation.SOFTMAX
        shares = activate(table, layout.activation, wanted)
        if layout.background is not None:
            shares = np.delete(shares, layout.background, axis=1)
        classes = np.nan_to_num(shares, nan=-1.0).argmax(axis=1)
        scores = shares[np.arange(len(shares)), classes]
    if layout.count:
        counted = int(np.nan_to_num(np.asarray(outputs[layout.count]).reshape(-1)[0]))
        boxes, scores, classes = boxes[:counted], scores[:counted], classes[:counted]
    with np.errstate(invalid="ignore"):
        kept = np.flatnonzero((scores >= threshold) & np.isfinite(boxes).all(axis=1))
    kept = kept[np.argsort(-scores[kept], kind="stable")]
    return Detections(boxes[kept], scores[kept], np.rint(classes[kept]).astype(np.int64))


def _columns(columns: Columns, outputs: Arrays) -> Floats:
    """Return the columns `[K, C]` of the only sample."""
    if columns.output not in outputs:
        raise DataError(f"output '{columns.output}' is missing; found {', '.join(outputs) or 'none'}.")
    values = np.asarray(outputs[columns.output][0], np.float64)
    if columns.stop == 0:
        return values.reshape(-1, 1)
    table = values.reshape(-1, values.shape[-1])
    table = table.T if columns.transposed else table
    return table[:, columns.start : columns.stop]


def rescaled(found: Sequence[Detections], scale: tuple[float, float]) -> list[Detections]:
    """Return detections with their boxes multiplied by (x, y)."""
    factor = np.array([*scale, *scale])
    return [Detections(item.boxes * factor, item.scores, item.classes) for item in found]
