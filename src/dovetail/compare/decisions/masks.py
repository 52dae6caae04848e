"""Agreement of masks: intersection over union by class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, Floats, output_pair
from dovetail.compare.task import Arrays
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs.decode.masks import class_map, class_shares
from dovetail.outputs.layouts import MaskLayout

Areas = tuple[tuple[int, float], ...]
"""Classes, each with a share of a picture."""

_FLOOR = 1e-3
"""Share of the picture below which a class is not judged by itself: a few pixels at its edge would decide."""


@dataclass(frozen=True)
class MaskAgreement(AgainstFloat):
    """Mean over the classes of a picture of 1 less what differs, over what either has of the class.

    A pixel counts by how much float prefers its class to the candidate's. Of one score only the foreground is judged.
    `typical` are the mean areas of classes in the float model's masks. Where a picture has less of a class than that,
    what differs is held against the typical area: as in the mean IoU of a whole set, in which intersections and unions
    are summed over its pictures (Cityscapes, PASCAL VOC), pixels of a class that a picture hardly has decide nothing.
    """

    layout: MaskLayout
    typical: Areas = ()
    name: str = "mask"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        golden, measured = output_pair(outputs, labels, self.layout.output)
        return np.array([self._one(real, found) for real, found in zip(golden, measured, strict=True)])

    def _one(self, golden: AnyArray, measured: AnyArray) -> float:
        real, found = class_map(self.layout, golden), class_map(self.layout, measured)
        weight = self._weight(golden, real, found)
        floor = _FLOOR * real.size
        single = self.layout.class_axis is None and not self.layout.labels
        typical = dict(self.typical)
        scores: list[float] = []
        for label in np.union1d(real, found).tolist():
            inside = (real == label) | (found == label)
            union = float(np.count_nonzero(inside))
            if union < floor or (single and label == 0):
                continue
            area = max(union, typical.get(label, 0.0) * real.size)
            scores.append(1.0 - min(1.0, float(weight[inside].sum()) / area))
        return float(np.mean(scores)) if scores else 1.0

    def _weight(self, golden: AnyArray, real: AnyArray, found: AnyArray) -> Floats:
        """Return `[H, W]`: 0 where both agree, else how much float prefers its own class, at most 1."""
        differs = real != found
        shares = class_shares(self.layout, golden)
        if shares is None:
            return np.asarray(differs, np.float64)
        if len(shares) == 2 and self.layout.class_axis is None:
            # The threshold is not always one half: how far the score is from it, as a share of the side it is on.
            score, limit = shares[1], self.layout.threshold
            margin = np.where(score > limit, (score - limit) / (1 - limit), (limit - score) / limit)
        else:
            own, other = (np.take_along_axis(shares, labels[None], axis=0)[0] for labels in (real, found))
            margin = own - other
        return np.asarray(np.clip(margin, 0.0, 1.0) * differs, np.float64)


def mask_agreement(layout: MaskLayout, golden: AnyArray) -> MaskAgreement:
    """Return the metric for masks `[N, ...]` of the float model, with the areas that its classes have there."""
    maps = np.stack([class_map(layout, item) for item in golden])
    labels, counts = np.unique(maps, return_counts=True)
    return MaskAgreement(layout, tuple(zip(labels.tolist(), (counts / maps.size).tolist(), strict=True)))
