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
"""How far below a threshold a box still counts in part: a score at the threshold is a coin toss."""


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

    Partners are of one class and overlap by `MATCH_IOU`; a detection without one is false. The mean over the thresholds
    at which float sees something; never more than float's own, and 1 where neither sees anything. Float itself scores
    below 1 where it is not sure.
    """
    partner = _partners(golden, measured)
    belief = np.zeros(len(measured.scores))
    matched = partner >= 0
    belief[partner[matched]] = golden.scores[matched]
    limits = [threshold, *(limit for limit in THRESHOLDS if limit > threshold)]
    scores: list[float] = []
    for limit in limits:
        objects = float(golden.scores[golden.scores >= threshold - SCORE_TOLERANCE].sum())
        own = _f1(golden.scores, golden.scores, objects, limit)
        found = _f1(measured.scores, belief, objects, limit)
        if own > 0:
            scores.append(min(own, found))
    if scores:
        return float(np.mean(scores))
    return 1.0 - float(_counted(measured.scores, threshold).max(initial=0.0))


def _f1(scores: Floats, belief: Floats, objects: float, limit: float) -> float:
    """Return twice the expected hits over the boxes that count and the objects that are expected."""
    counted = _counted(scores, limit)
    total = float(counted.sum()) + objects
    return 2 * float((counted * belief).sum()) / total if total > 0 else 0.0


def _counted(scores: Floats, limit: float) -> Floats:
    """Return how much each box counts: 1 from the limit on, falling to 0 within the tolerance below it."""
    return np.clip((scores - limit) / SCORE_TOLERANCE + 1.0, 0.0, 1.0)


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
