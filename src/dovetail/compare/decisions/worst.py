"""Several decisions of one model: each has its figure, and the worst of a picture counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, DecisionScore, Floats
from dovetail.compare.task import Arrays


@dataclass(frozen=True)
class Decision:
    """One decision of a model, and the metric that compares it with float's."""

    name: str
    kind: str
    """What is decided, such as `detection`."""
    outputs: tuple[str, ...]
    metric: AgainstFloat


@dataclass(frozen=True)
class Decisions(AgainstFloat):
    """The decisions of a model, scored by what the float model holds of them.

    Of one decision it is the score of that; of several, picture by picture, 1 less what the worst loses against float.
    """

    parts: tuple[Decision, ...]
    name: str = "decisions"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        scores = self.part_scores(outputs, labels)
        if len(self.parts) == 1:
            return np.asarray(scores[0], np.float64)
        return np.asarray(1.0 - np.max(self.part_scores(labels, labels) - scores, axis=0), np.float64)

    def part_scores(self, outputs: Arrays, labels: Arrays) -> Floats:
        """Return the scores `[parts, N]` of every decision by itself."""
        return np.stack([part.metric.per_sample(outputs, labels) for part in self.parts])

    def figures(self, outputs: Arrays, labels: Arrays) -> tuple[DecisionScore, ...]:
        """Return the score of every decision by itself, with that of the float model."""
        return self.figures_of(self.part_scores(outputs, labels), self.part_scores(labels, labels))

    def figures_of(self, scores: Floats, float_scores: Floats) -> tuple[DecisionScore, ...]:
        """Return the means of scores `[parts, N]` that are known already."""
        return tuple(
            DecisionScore(part.name, part.kind, part.outputs, score, own, part.metric.unit(score))
            for part, score, own in zip(
                self.parts, scores.mean(axis=1).tolist(), float_scores.mean(axis=1).tolist(), strict=True
            )
        )
