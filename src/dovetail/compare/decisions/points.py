"""Agreement of keypoints, of a picture or of what is detected in it: the share that stays in its place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, Floats
from dovetail.compare.decisions.noise import REACHES
from dovetail.compare.task import Arrays
from dovetail.outputs.decode.planes import read_part
from dovetail.outputs.decode.points import find_points
from dovetail.outputs.decode.scores import place_scores
from dovetail.outputs.layouts import BinsLayout, DenseLayout, HeatmapsLayout, PointsLayout


@dataclass(frozen=True)
class PointAgreement(AgainstFloat):
    """Mean over three reaches of the keypoints within reach of float's, each weighted by how sure float is of it.

    Reaches are shares of the size of what the keypoints span.
    """

    layout: HeatmapsLayout | PointsLayout | BinsLayout
    name: str = "keypoints"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        real, sure = find_points(self.layout, labels)
        found, _ = find_points(self.layout, outputs)
        span = np.maximum((real.max(axis=1) - real.min(axis=1)).max(axis=1), 1e-9)
        distance = np.sqrt(np.square(real - found).sum(axis=2)) / span[:, None]
        distance = np.where(np.isfinite(distance), distance, np.inf)
        near = np.mean([distance <= reach for reach in REACHES], axis=0)
        peak = np.maximum(sure.max(axis=1, keepdims=True), 1e-9)
        weight = np.clip(sure / peak, 0.0, 1.0) + 1e-9
        return np.asarray((near * weight).sum(axis=1) / weight.sum(axis=1), np.float64)


@dataclass(frozen=True)
class LandmarkAgreement(AgainstFloat):
    """Mean over the keypoints of what float detects: 1 within the nearest reach, 0 beyond the farthest.

    Reaches are shares of what the keypoints of a place span, so that their unit does not matter: pixels, cells, sizes
    of an anchor. A place weighs as much as float is sure of it, and a keypoint as it is of that, where it says so.
    Places where float detects nothing do not count; where it detects nothing at all a sample scores 1.
    """

    layout: DenseLayout
    name: str = "landmarks"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        part = self.layout.landmarks
        assert part is not None
        real, found = (np.asarray(read_part(part, arrays), np.float64) for arrays in (labels, outputs))
        return np.array([self._one(real[row], found[row], labels, row) for row in range(len(real))])

    def _one(self, real: Floats, found: Floats, labels: Arrays, row: int) -> float:
        scores = np.nan_to_num(place_scores(self.layout, labels, row).max(axis=1))
        places = np.flatnonzero(scores >= self.layout.threshold)
        if not len(places):
            return 1.0
        points, sure = _points(real[places])
        moved, _ = _points(found[places])
        span = np.maximum((points.max(axis=1) - points.min(axis=1)).max(axis=1), 1e-9)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.sqrt(np.square(points - moved).sum(axis=2)) / span[:, None]
        distance = np.where(np.isfinite(distance), distance, np.inf)
        near, far = REACHES[0], REACHES[-1]
        lost = np.clip((distance - near) / (far - near), 0.0, 1.0)
        weight = scores[places, None] * sure
        return float(1.0 - (lost * weight).sum() / weight.sum())


def has_landmarks(layout: DenseLayout) -> bool:
    """Tell whether a detector gives some keypoints of all that it detects."""
    return layout.landmarks is not None and layout.landmarks.width // _axes(layout.landmarks.width) > 1


def _axes(width: int) -> int:
    """Return how many numbers a keypoint has: two, or three where there is also how sure it is."""
    return 2 if width % 2 == 0 else 3 if width % 3 == 0 else width


def _points(values: Floats) -> tuple[Floats, Floats]:
    """Return keypoints `[P, K, 2]` of places `[P, C]`, and how sure each is `[P, K]`."""
    table = values.reshape(len(values), -1, _axes(values.shape[1]))
    if table.shape[2] == 2:
        return table, np.ones(table.shape[:2])
    told = np.nan_to_num(table[..., 2])
    shares = told if ((told >= 0) & (told <= 1)).all() else 1.0 / (1.0 + np.exp(-np.clip(told, -50.0, 50.0)))
    return table[..., :2], np.asarray(shares + 1e-9, np.float64)
