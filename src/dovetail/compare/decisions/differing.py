"""How a candidate's decisions differ from float's, over samples that need not be in memory together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import DecisionScore, Floats
from dovetail.compare.decisions.worst import Decisions
from dovetail.compare.task import Arrays
from dovetail.errors import DataError

_NOTHING = 1e-9
"""A loss below this is rounding."""


@dataclass(frozen=True, slots=True)
class DecisionLosses:
    """What a candidate loses against float: decision by decision, and sample by sample."""

    figures: tuple[DecisionScore, ...]
    by_sample: Floats
    """`[N]`: what the worst decision of a sample loses."""

    def most(self, count: int) -> list[int]:
        """Return the samples that lose most, the worst first; those that lose nothing are left out."""
        order = np.argsort(-self.by_sample, kind="stable")[:count]
        return [int(index) for index in order if self.by_sample[index] > _NOTHING]


def decision_losses(metric: Decisions, runs: Iterable[tuple[Arrays, Arrays]]) -> DecisionLosses:
    """Return what is lost over runs of (float's outputs, the candidate's), each `[n, ...]` of some samples.

    Raises DataError where there is no run.
    """
    parts = [(metric.part_scores(golden, golden), metric.part_scores(measured, golden)) for golden, measured in runs]
    if not parts:
        raise DataError("decisions: there is no sample to compare on.", hint="Give at least one sample.")
    own, scores = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    return DecisionLosses(metric.figures_of(scores, own), np.asarray((own - scores).max(axis=0), np.float64))
