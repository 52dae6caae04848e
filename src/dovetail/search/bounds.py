"""How much a plan loses on new samples at most, given what it loses on some that did not select it.

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

import numpy as np

from dovetail.ir.dtypes import AnyArray

_GRID = 1024
"""Means that are tested at once: less than 1 % apart."""
_ROUNDS = 3
"""How often they are laid closer between the bound's neighbours: to a millionth of it."""
_HALVINGS = 40


def upper_bound(losses: AnyArray, largest: float, confidence: float) -> float:
    """Return what the mean loss of new samples is at most, with a confidence; more than 0 even where plans gain.

    `losses` are those of independent samples `[N]`, none above `largest`.
    """
    values, counts = np.unique(np.asarray(losses, np.float64) / largest, return_counts=True)
    needed = math.log(1 / (1 - confidence))
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
