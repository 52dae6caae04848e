"""How much of the outputs' signal is noise when a plan runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.plan.plan import Plan
from dovetail.quantize.ranges import Range
from dovetail.search.evaluator import Evaluator
from dovetail.search.trial import Scores

MOST_NOISE = 2.0
"""The noise of an output that has nothing of its signal left."""

_BLOCK = 1 << 20
"""Values of which powers are taken at a time: outputs of many samples are not copied as a whole."""


def measure_noise(
    evaluator: Evaluator, plan: Plan, indices: Sequence[int], needed: Mapping[str, Range] | None = None
) -> Scores:
    """Return as a score the noise of the output that a plan harms most, within the ranges that are needed."""
    golden, outputs = _both(evaluator, plan, indices, needed)
    return Scores(max(noise_of(golden[name], outputs[name]) for name in golden), None)


def measure_mean_noise(
    evaluator: Evaluator, plan: Plan, indices: Sequence[int], needed: Mapping[str, Range] | None = None
) -> Scores:
    """Return as a score the noise of the output that a plan harms most, by the mean over its columns alone.

    It tells plans apart that harm all of an output; a few columns that hardly carry a signal do not lead it.
    """
    golden, outputs = _both(evaluator, plan, indices, needed)
    return Scores(max(_noise(golden[name], outputs[name], 0.0) for name in golden), None)


def _both(
    evaluator: Evaluator, plan: Plan, indices: Sequence[int], needed: Mapping[str, Range] | None
) -> tuple[dict[str, AnyArray], dict[str, AnyArray]]:
    golden, outputs = evaluator.golden(indices), evaluator.outputs(plan, indices)
    return (clipped(golden, needed), clipped(outputs, needed)) if needed else (golden, outputs)


def clipped(outputs: Mapping[str, AnyArray], needed: Mapping[str, Range]) -> dict[str, AnyArray]:
    """Return outputs within the ranges that are needed of them."""
    return {
        name: np.clip(value, needed[name].low, needed[name].high) if name in needed else value
        for name, value in outputs.items()
    }


def noise_of(golden: AnyArray, measured: AnyArray) -> float:
    """Return how much of an output is noise: that of the worst column plus the mean over columns, in 0..2.

    A column is an index of the last axis or of axis 1, its noise N / (N + S) with the powers of error and signal.
    The worst alone misleads where some column hardly carries a signal, the mean alone where one column decides.
    """
    return _noise(golden, measured, 1.0)


def noise_power(share: float) -> float:
    """Return noise over signal of a share of noise in 0..2."""
    bounded = min(max(share, 0.0), 0.999 * MOST_NOISE)
    return bounded / (MOST_NOISE - bounded)


def _noise(golden: AnyArray, measured: AnyArray, worst: float) -> float:
    """Return the mean noise over columns, plus that of the worst column times a weight."""
    if not np.issubdtype(golden.dtype, np.floating):
        return (1.0 + worst) * float(np.mean(golden != measured))
    axes = sorted({golden.ndim - 1, min(1, golden.ndim - 1)}) if golden.ndim else []
    shares = [_shares(lost, kept) for lost, kept in _powers(golden, measured, axes)]
    return max((float(worst * share.max() + share.mean()) for share in shares if share.size), default=0.0)


def _powers(golden: AnyArray, measured: AnyArray, axes: Sequence[int]) -> list[tuple[AnyArray, AnyArray]]:
    """Return the powers of error and signal of every index of each axis, summed up in blocks of the first axis."""
    powers = [(np.zeros(golden.shape[axis]), np.zeros(golden.shape[axis])) for axis in axes]
    rows = max(1, _BLOCK * len(golden) // max(golden.size, 1))
    for start in range(0, len(golden), rows):
        block = slice(start, start + rows)
        signal = golden[block].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            noise = np.square(measured[block].astype(np.float64) - signal)
        # What is no number is no signal: an operator that breaks must not look harmless.
        noise[~np.isfinite(noise)] = np.inf
        signal = np.square(signal)
        for axis, (lost, kept) in zip(axes, powers, strict=True):
            others = tuple(item for item in range(golden.ndim) if item != axis)
            # An axis that is itself cut into blocks has its indices in one block each.
            where = block if axis == 0 else slice(None)
            lost[where] += noise.sum(axis=others)
            kept[where] += signal.sum(axis=others)
    return powers


def _shares(lost: AnyArray, kept: AnyArray) -> AnyArray:
    live = (kept > 0) | (lost > 0)
    bounded = np.minimum(lost[live], np.finfo(np.float64).max / 4)
    share: AnyArray = bounded / (bounded + kept[live])
    return share
