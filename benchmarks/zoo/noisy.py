"""Planted tasks whose true loss is known: units lose samples by chance, and any number of samples can be drawn.

Whether a unit loses a sample while it is low is drawn for each of them. A few units do most of the harm, the others
share the rest; how much that is differs from task to task. `Kind` says what a lost sample costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dovetail.plan import Placement, Plan

Floats = NDArray[np.float64]


class Kind(Enum):
    """What a sample costs that a unit loses."""

    AGREEMENT = "agreement"
    """All of it: the plan decides otherwise than float."""
    LABELLED = "labelled"
    """All where float is right, as on 90 %; else the plan is right by luck on one in five: it gains."""
    GRADED = "graded"
    """A part (Beta(2, 4), a third in the mean), as a detector that misses one box of some."""


RIGHT, LUCK, PART = 0.9, 0.2, (2.0, 4.0)


@dataclass(frozen=True)
class World:
    """Units that lose samples with these probabilities while they are low."""

    kind: Kind
    units: tuple[str, ...]
    chances: Floats
    low: Placement

    @classmethod
    def drawn(cls, kind: Kind, units: Sequence[str], low: Placement, loss: float, rng: np.random.Generator) -> World:
        """Return a world in which everything low truly loses `loss`."""
        share = rng.choice([0.2, 0.5, 0.9])
        weights = np.full(len(units), share / len(units))
        culprits = rng.choice(len(units), rng.integers(1, 5), replace=False)
        weights[culprits] += (1 - share) * rng.dirichlet(np.ones(len(culprits)))
        small, large = 0.0, 1.0 / float(weights.max())
        for _ in range(100):
            middle = (small + large) / 2
            worse = cls(kind, tuple(units), middle * weights, low).true_loss(np.ones(len(units), bool)) > loss
            small, large = (small, middle) if worse else (middle, large)
        return cls(kind, tuple(units), small * weights, low)

    @cached_property
    def _worth(self) -> float:
        """What a lost sample costs in the mean."""
        partial = PART[0] / sum(PART)
        return {Kind.AGREEMENT: 1.0, Kind.LABELLED: RIGHT - (1 - RIGHT) * LUCK, Kind.GRADED: partial}[self.kind]

    def lowered(self, plan: Plan) -> NDArray[np.bool_]:
        """Return which units a plan leaves low."""
        return np.array([plan.placement(unit) == self.low for unit in self.units])

    def true_loss(self, lowered: NDArray[np.bool_]) -> float:
        """Return what new samples lose in the mean."""
        if self.kind is Kind.GRADED:
            return float(1 - np.prod(1 - self._worth * self.chances[lowered]))
        return float(self._worth * (1 - np.prod(1 - self.chances[lowered])))

    def draw(self, count: int, rng: np.random.Generator) -> Samples:
        """Return new samples."""
        lost = rng.random((count, len(self.units))) < self.chances
        parts = lost * (rng.beta(*PART, lost.shape) if self.kind is Kind.GRADED else 1.0)
        right, lucky = rng.random(count) < RIGHT, rng.random(count) < LUCK
        return Samples(self, parts, right | (self.kind is not Kind.LABELLED), lucky)


@dataclass(frozen=True)
class Samples:
    """Samples of a world: how much each unit costs each sample, where float is right, and where luck would be."""

    world: World
    parts: Floats
    right: NDArray[np.bool_]
    lucky: NDArray[np.bool_]

    def losses(self, plan: Plan, indices: Sequence[int] | slice = slice(None)) -> Floats:
        """Return what a plan loses on samples."""
        chosen = indices if isinstance(indices, slice) else list(indices)
        harm = 1 - np.prod(1 - self.parts[chosen][:, self.world.lowered(plan)], axis=1)
        return np.where(self.right[chosen], harm, -harm * self.lucky[chosen])
