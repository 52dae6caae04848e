"""Several decisions of one model: each has its figure, and the worst of a picture counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions.golden import AgainstFloat, DecisionScore, Floats
from dovetail.compare.task import Arrays


@dataclass(frozen=True)
class Decisions(AgainstFloat):
    """The decisions of a model, scored by what the float model holds of them.

    Of one decision it is the score of that; of several, picture by picture, 1 less what the worst loses against float.
    """

    parts: tuple[AgainstFloat, ...]
    name: str = "decisions"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> Floats:
        if len(self.parts) == 1:
            return self.parts[0].per_sample(outputs, labels)
        losses = [part.per_sample(labels, labels) - part.per_sample(outputs, labels) for part in self.parts]
        return np.asarray(1.0 - np.max(losses, axis=0), np.float64)

    def figures(self, outputs: Arrays, labels: Arrays) -> tuple[DecisionScore, ...]:
        """Return the score of every part by itself, with that of the float model."""
        return tuple(
            DecisionScore(part.name, score := part.score(outputs, labels), part.score(labels, labels), part.unit(score))
            for part in self.parts
        )
