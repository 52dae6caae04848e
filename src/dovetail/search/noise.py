"""How much of the outputs' signal is noise when a plan runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.plan.plan import Plan
from dovetail.search.evaluator import Evaluator
from dovetail.search.trial import Scores

MOST_NOISE = 2.0
"""The noise of an output that has nothing of its signal left."""


def measure_noise(evaluator: Evaluator, plan: Plan, indices: Sequence[int]) -> Scores:
    """Return as a score the noise of the output that a plan harms most."""
    golden, outputs = evaluator.golden(indices), evaluator.outputs(plan, indices)
    return Scores(max(noise_of(golden[name], outputs[name]) for name in golden), None)


def measure_mean_noise(evaluator: Evaluator, plan: Plan, indices: Sequence[int]) -> Scores:
    """Return as a score the noise of the output that a plan harms most, by the mean over its columns alone.

    It tells plans apart that harm all of an output; a few columns that hardly carry a signal do not lead it.
    """
    golden, outputs = evaluator.golden(indices), evaluator.outputs(plan, indices)
    return Scores(max(_noise(golden[name], outputs[name], 0.0) for name in golden), None)


def noise_of(golden: AnyArray, measured: AnyArray) -> float:
    """Return how much of an output is noise: that of the worst column plus the mean over columns, in 0..2.

    A column is an index of the last axis or of axis 1, its noise N / (N + S) with the powers of error and signal.
    The worst alone misleads where some column hardly carries a signal, the mean alone where one column decides.
    """
    return _noise(golden, measured, 1.0)


def _noise(golden: AnyArray, measured: AnyArray, worst: float) -> float:
    """Return the mean noise over columns, plus that of the worst column times a weight."""
    if not np.issubdtype(golden.dtype, np.floating):
        return (1.0 + worst) * float(np.mean(golden != measured))
    axes = {golden.ndim - 1, min(1, golden.ndim - 1)} if golden.ndim else set[int]()
    with np.errstate(over="ignore", invalid="ignore"):
        noise = np.square(measured.astype(np.float64) - golden)
    # What is no number is no signal: an operator that breaks must not look harmless.
    noise = np.where(np.isfinite(noise), noise, np.inf)
    signal = np.square(golden.astype(np.float64))
    shares = [_shares(noise, signal, tuple(item for item in range(golden.ndim) if item != axis)) for axis in axes]
    return max((float(worst * share.max() + share.mean()) for share in shares if share.size), default=0.0)


def _shares(noise: AnyArray, signal: AnyArray, others: tuple[int, ...]) -> AnyArray:
    lost, kept = noise.sum(axis=others), signal.sum(axis=others)
    live = (kept > 0) | (lost > 0)
    bounded = np.minimum(lost[live], np.finfo(np.float64).max / 4)
    share: AnyArray = bounded / (bounded + kept[live])
    return share
