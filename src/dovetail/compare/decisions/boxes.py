"""Detections: the F1 that a candidate would have, were the float model's scores right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.decisions.golden import AgainstFloat, Floats
from dovetail.compare.task import Arrays, sample_count
from dovetail.outputs.decode.detections import Detections, box_iou
from dovetail.outputs.decode.found import Reading, find_detections
from dovetail.outputs.decode.masks import text_regions
from dovetail.outputs.layouts import DenseLayout, MaskLayout, RowsLayout

MATCH_IOU = 0.5
"""Overlap from which two boxes are one detection, as in COCO's and VOC's AP50."""
THRESHOLDS = (0.25, 0.5, 0.75)
"""Scores from which people count boxes; the layout's own threshold takes the place of the first."""
SCORE_TOLERANCE = 0.1
"""How far a score has to move across a threshold to be another decision: what is at it is a coin toss."""


@dataclass(frozen=True)
class DetectionAgreement(AgainstFloat):
    """Compare what is left after suppression, picture by picture; see `expected_f1`."""

    layout: DenseLayout | RowsLayout
    name: str = "detections"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        sample_count(outputs)
        reading = Reading(threshold=max(self.layout.threshold - SCORE_TOLERANCE, SCORE_TOLERANCE / 2))
        golden, measured = (find_detections(self.layout, arrays, reading) for arrays in (labels, outputs))
        pairs = zip(golden, measured, strict=True)
        return np.array([expected_f1(real, found, self.layout.threshold) for real, found in pairs])


@dataclass(frozen=True)
class TextRegionAgreement(AgainstFloat):
    """Compare boxes of connected text."""

    layout: MaskLayout
    name: str = "text boxes"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        sample_count(outputs)
        golden, measured = (text_regions(self.layout, arrays, self.layout.threshold) for arrays in (labels, outputs))
        pairs = zip(golden, measured, strict=True)
        return np.array([expected_f1(real, found, self.layout.threshold) for real, found in pairs])


def expected_f1(golden: Detections, measured: Detections, threshold: float) -> float:
    """Return the F1 of the measured detections, if a float detection is real with the probability of its score.

    Partners are of one class and overlap by `MATCH_IOU`; a detection without one is false. A box whose score crosses a
    threshold is lost, or false, by how far the score has moved: wholly from `SCORE_TOLERANCE` on. The mean over the
    thresholds at which float sees something; never more than float's own, and 1 where neither sees anything. Float
    itself scores below 1 where it is not sure.
    """
    partner = _partners(golden, measured)
    matched = partner >= 0
    again = np.zeros(len(golden.scores))
    again[matched] = measured.scores[partner[matched]]
    false = np.delete(measured.scores, partner[matched])
    moved = np.clip(np.abs(again - golden.scores) / SCORE_TOLERANCE, 0.0, 1.0)
    objects = float(golden.scores[golden.scores >= threshold - SCORE_TOLERANCE].sum())
    scores: list[float] = []
    for limit in (threshold, *(limit for limit in THRESHOLDS if limit > threshold)):
        counted = np.asarray(golden.scores >= limit, np.float64)
        if not counted.any():
            continue
        flipped = (again >= limit) - counted
        own = _f1(counted, golden.scores, objects, 0)
        found = _f1(counted + flipped * moved, golden.scores, objects, int(np.count_nonzero(false >= limit)))
        scores.append(min(own, found))
    if scores:
        return float(np.mean(scores))
    invented = float(moved[again >= threshold].max(initial=0.0))
    return 0.0 if (false >= threshold).any() else 1.0 - invented


def _f1(counted: Floats, belief: Floats, objects: float, false: int) -> float:
    """Return twice the expected hits over the boxes that count and the objects that are expected."""
    return 2 * float((counted * belief).sum()) / (float(counted.sum()) + false + objects)


def _partners(golden: Detections, measured: Detections) -> NDArray[np.intp]:
    """Return for every golden box, the surest first, the measured one that overlaps most; -1 for none."""
    partner = np.full(len(golden.scores), -1, np.intp)
    if not len(golden.scores) or not len(measured.scores):
        return partner
    overlap = box_iou(golden.boxes, measured.boxes)
    overlap[golden.classes[:, None] != measured.classes[None, :]] = 0.0
    for row in np.argsort(-golden.scores, kind="stable"):
        best = int(overlap[row].argmax())
        if overlap[row, best] >= MATCH_IOU:
            partner[row] = best
            overlap[:, best] = 0.0
    return partner
