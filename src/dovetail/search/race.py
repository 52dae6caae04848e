"""The race: reject a plan on a part of the samples, with a stated probability of being wrong.

A test by betting for sampling without replacement (Waudby-Smith and Ramdas, "Confidence sequences for sampling without
replacement", 2020, and "Estimating means of bounded random variables by betting", 2024). The samples of a split come
in random order; if the mean loss over the whole split were allowed, the mean of those to come would be bounded by what
is left of the allowance, and bets that the next sample loses more would not gain on average. Their wealth is then a
non-negative supermartingale that starts at 1, so that it ever reaches 1 / alpha with a probability of at most alpha
(Ville's inequality): at any sample, however often one looks, and for any distribution of losses.

Two bets run side by side and their wealth is averaged: one on the losses, sample by sample against float (strong where
plan and float differ on few samples), one on what the plan lacks to the best score (strong where it breaks), as the
float model's mean over the whole split is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.search.bounds import LossRange
from dovetail.search.policy import RacePolicy


@dataclass(frozen=True, slots=True)
class Race:
    """What is known beforehand: float's scores `[N]` in the order of the split, and the largest score there is."""

    float_scores: AnyArray
    best: float
    largest_loss: float | None = None
    """What one sample can lose at most; None where nothing says so."""
    policy: RacePolicy = field(default_factory=RacePolicy)

    @classmethod
    def against(cls, float_scores: AnyArray, policy: RacePolicy | None = None) -> Race:
        """Return the race against float's scores.

        Scores are taken to be within 0 and 1 where all of float's are, so that a sample loses 1 at most. Else the best
        score is 0 where none is above 0 (an error, negated), or float's largest, and nothing says what a sample can
        lose. A plan that does better than the best on a sample is not rejected early.
        """
        low, high = float(float_scores.min()), float(float_scores.max())
        is_share = low >= 0 and high <= 1
        best = 0.0 if high <= 0 else 1.0 if is_share else high
        return cls(float_scores, best, 1.0 if is_share else None, policy or RacePolicy())

    @property
    def loss_range(self) -> LossRange | None:
        """Return what one sample can lose; None where nothing says so. Where float is perfect none can gain."""
        if self.largest_loss is None:
            return None
        is_perfect = bool((self.float_scores >= self.best).all())
        return LossRange(0.0 if is_perfect else -self.largest_loss, self.largest_loss)

    def rejects(self, scores: AnyArray, allowance: float) -> bool:
        """Tell whether the first scores leave no doubt, up to alpha, that the mean loss exceeds the allowance."""
        if not np.isfinite(scores).all():
            return False
        losses = self.float_scores[: len(scores)] - scores
        floor = float(self.float_scores.min()) - self.best
        shortfall = self.best - float(self.float_scores.mean()) + allowance
        wealth = self._wealth(losses, allowance, floor) + self._wealth(self.best - scores, shortfall, 0.0)
        return bool(np.max(wealth / 2, initial=0.0) >= 1 / self.policy.alpha)

    def _wealth(self, values: AnyArray, mean: float, floor: float) -> AnyArray:
        """Return the wealth after each value of bets that the split's values, none below `floor`, exceed a mean.

        It is infinite where the mean could no longer be kept whatever comes, and 0 once a value was below the floor.
        """
        total = len(self.float_scores)
        tolerance = 1e-9 * max(1.0, abs(mean), abs(floor))
        spent = np.concatenate(([0.0], np.cumsum(values)))
        left = total - np.arange(len(values) + 1)
        # What the mean of the values to come is at most, before each value and after the last.
        rest = np.divide(total * mean - spent, left, out=np.full(len(left), math.inf), where=left > 0)
        room = rest - floor
        bets = room[:-1] > tolerance
        step = np.divide(values - rest[:-1], room[:-1], out=np.zeros(len(values)), where=bets)
        factors = 1.0 + np.asarray(self.policy.stakes)[:, None] * np.maximum(step, -1.0)
        with np.errstate(over="ignore"):
            wealth: AnyArray = np.exp(np.cumsum(np.log(factors), axis=1)).mean(axis=0)
        wealth[room[1:] < -tolerance] = math.inf
        wealth[np.logical_or.accumulate(values < floor - tolerance)] = 0.0
        return wealth
