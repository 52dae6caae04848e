"""How much a plan loses on new samples, given what it loses on some that did not select it.

The betting test of Waudby-Smith and Ramdas ("Estimating means of bounded random variables by betting", 2024), inverted:
let no sample lose more than `largest`, and let samples be drawn independently. If the mean loss of new samples were m
or more, then bets that a sample loses less than m would not gain on average: the wealth, the product of
1 + s (m - x) / (largest - m) with any stake s from 0 to 1, has a mean of at most 1 whatever the losses x look like, and
reaches 1 / alpha with a probability of at most alpha (Markov). The bound is the largest m that the wealth leaves.

For each m the stake is the one that gains most where as many samples lose everything as still have to speak against m.
Where losses are 0 or `largest` that makes it the bound of Chernoff and Hoeffding ("Probability inequalities for sums
of bounded random variables", 1963), and where nothing is lost that of Clopper and Pearson. Smaller losses and gains
make it tighter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from dovetail.ir.dtypes import AnyArray

_GRID = 1024
"""Means that are tested at once: less than 1 % apart."""
_ROUNDS = 3
"""How often they are laid closer between the bound's neighbours: to a millionth of it."""
_HALVINGS = 40
_STAKES = (np.arange(64) + 0.5) / 64
"""Stakes whose mean is the wealth of bets that need no guess of the mean: the uniform mixture."""
_MOST_FACTOR = 1 << 20


@dataclass(frozen=True, slots=True)
class LossRange:
    """What one sample can lose, at least (negative where it can gain) and at most, in the metric's unit."""

    least: float
    largest: float


@dataclass(frozen=True, slots=True)
class Interval:
    """What the mean loss of new samples is between."""

    lower: float
    upper: float

    def excludes(self, allowance: float) -> bool:
        """Tell whether the mean is on one side of an allowed loss for sure."""
        return self.upper <= allowance + 1e-12 or self.lower > allowance + 1e-12


@dataclass(frozen=True, slots=True)
class _Tally:
    """How often each loss was seen."""

    values: AnyArray
    counts: AnyArray

    @classmethod
    def of(cls, losses: AnyArray) -> _Tally:
        return cls(*np.unique(np.asarray(losses, np.float64), return_counts=True))

    def times(self, factor: float) -> _Tally:
        return _Tally(self.values, self.counts * factor)


def upper_bound(losses: AnyArray, largest: float, confidence: float) -> float:
    """Return what the mean loss of new samples is at most, with a confidence; more than 0 even where plans gain.

    `losses` are those of independent samples `[N]`, none above `largest`.
    """
    return _upper(_Tally.of(losses), largest, 1 - confidence)


def loss_interval(losses: AnyArray, limits: LossRange, doubt: float) -> Interval:
    """Return bounds of the mean loss of new samples, each of which is wrong with a probability of at most `doubt`.

    Where every sample that was seen lost everything or nothing they are those of Clopper and Pearson, which hold for
    any losses from 0 to the largest if the samples that lose anything are counted; else those of betting.
    """
    return _interval(_Tally.of(losses), limits, doubt)


def samples_to_decide(losses: AnyArray, limits: LossRange, doubt: float, allowance: float) -> int | None:
    """Return how many samples more would tell on which side of an allowance the mean is, if they lose as these do.

    0 where these do; None where no number would.
    """
    tally = _Tally.of(losses)

    def decides(factor: float) -> bool:
        return _interval(tally.times(factor), limits, doubt).excludes(allowance)

    if decides(1.0):
        return 0
    high = 2.0
    while not decides(high):
        high *= 2
        if high > _MOST_FACTOR:
            return None
    low = high / 2
    while (high - low) * len(losses) > 1:
        middle = (low + high) / 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return math.ceil((high - 1) * len(losses))


def largest_sure_loss(samples: int, largest: float, doubt: float, allowance: float) -> float | None:
    """Return the largest mean loss, of samples lost or not, whose bound is within an allowance; None where none is."""
    lost = np.arange(samples)
    sure = np.flatnonzero(special.betaincinv(lost + 1, samples - lost, 1 - doubt) * largest <= allowance + 1e-12)
    return float(sure[-1] / samples) * largest if sure.size else None


def log_wealth_above(values: AnyArray, mean: float, least: float) -> float:
    """Return the logarithm of the wealth of bets that the mean of new values exceeds `mean`; none is below `least`.

    If it does not, the wealth reaches 1 / p with a probability of at most p.
    """
    return _log_wealth_above(_Tally.of(values), mean, least)


def _interval(tally: _Tally, limits: LossRange, doubt: float) -> Interval:
    if np.isin(tally.values, (0.0, limits.largest)).all():
        count = float(tally.counts.sum())
        lost = float(tally.counts[tally.values > 0].sum())
        lower = special.betaincinv(lost, count - lost + 1, doubt) if lost else 0.0
        upper = special.betaincinv(lost + 1, count - lost, 1 - doubt) if lost < count else 1.0
        return Interval(float(lower) * limits.largest, float(upper) * limits.largest)
    return Interval(_lower(tally, limits.least, doubt), _upper(tally, limits.largest, doubt))


def _lower(tally: _Tally, least: float, doubt: float) -> float:
    """Return what the mean is at least: the largest one that bets refute."""
    needed = math.log(1 / doubt)
    low, high = least, float(np.average(tally.values, weights=tally.counts))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        refuted = middle > least and _log_wealth_above(tally, middle, least) >= needed
        low, high = (middle, high) if refuted else (low, middle)
    return low


def _log_wealth_above(tally: _Tally, mean: float, least: float) -> float:
    steps = (tally.values - mean) / (mean - least)
    gains = np.log1p(_STAKES[:, None] * np.maximum(steps, -1.0)) @ tally.counts
    return float(special.logsumexp(gains) - math.log(len(_STAKES)))


def _upper(tally: _Tally, largest: float, doubt: float) -> float:
    values, counts = tally.values / largest, tally.counts
    needed = math.log(1 / doubt)
    # Where nothing is lost the bound is this; gains bring it below.
    lossless = -math.expm1(-needed / counts.sum())
    low, high, points = lossless / 64, 1 - 1e-9, _GRID
    for _ in range(_ROUNDS):
        means = np.geomspace(low, high, points)
        left = np.flatnonzero(_log_wealth(values, counts, means, needed) < needed)
        if not left.size:
            return float(means[0]) * largest
        if left[-1] + 1 == points:
            return largest
        low, high, points = means[left[-1]], means[left[-1] + 1], 64
    return float(high) * largest


def _log_wealth(values: AnyArray, counts: AnyArray, means: AnyArray, needed: float) -> AnyArray:
    """Return the logarithm of the wealth of bets against each mean, given how often each loss (up to 1) was seen."""
    share = _rejecting_share(means, needed / counts.sum())
    stakes = (means - share) / means
    with np.errstate(divide="ignore"):
        gains = np.log1p(stakes * (means - values[:, None]) / (1 - means))
    wealth: AnyArray = counts @ gains
    return wealth


def _rejecting_share(means: AnyArray, distance: float) -> AnyArray:
    """Return the largest share of lost samples whose Kullback-Leibler divergence from each mean is `distance` or more.

    It is 0 where even no loss at all is nearer than that.
    """
    low, high = np.zeros_like(means), means.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        divergence = middle * np.log(middle / means) + (1 - middle) * np.log((1 - middle) / (1 - means))
        low, high = np.where(divergence >= distance, middle, low), np.where(divergence >= distance, high, middle)
    return np.where(-np.log1p(-means) >= distance, low, 0.0)
