"""Agreement of keypoints: the share that stays in its place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, Floats
from dovetail.compare.decisions.noise import REACHES
from dovetail.compare.task import Arrays
from dovetail.outputs.decode.points import find_points
from dovetail.outputs.layouts import BinsLayout, HeatmapsLayout, PointsLayout


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
