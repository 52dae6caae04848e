"""Quantise one unit of the float model at a time and look at the outputs.

Never the other way round: with two culprits in series, restoring one unit of the quantised model tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.plan.plan import Override, Plan
from dovetail.search.evaluator import Evaluator
from dovetail.search.journal import Scores
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.space import FLOAT, Space


def quantise_one(
    space: Space, recorded: RecordedEvaluator, indices: Sequence[int], units: Sequence[str]
) -> Mapping[str, float]:
    """Return for every unit the noise-to-signal ratio of the worst output column when only it is low."""
    everything = {name: Override(FLOAT, "float") for name in space.units}
    damage: dict[str, float] = {}
    for unit in units:
        plan = space.plan({name: override for name, override in everything.items() if name != unit})
        scores = recorded.once("noise", plan, indices, partial(_noise, recorded.evaluator, plan, indices))
        damage[unit] = float("inf") if scores.failure else scores.score
    return damage


def _noise(evaluator: Evaluator, plan: Plan, indices: Sequence[int]) -> Scores:
    golden, outputs = evaluator.golden(indices), evaluator.outputs(plan, indices)
    return Scores(min(max(worst_noise(golden[name], outputs[name]) for name in golden), 1e30), None)


def worst_noise(golden: AnyArray, measured: AnyArray) -> float:
    """Return the largest noise-to-signal power ratio over the indices of the last axis and of axis 1."""
    if not np.issubdtype(golden.dtype, np.floating):
        return float(np.mean(golden != measured))
    axes = {golden.ndim - 1, min(1, golden.ndim - 1)} if golden.ndim else {0}
    noise = np.square(measured.astype(np.float64) - golden)
    signal = np.square(golden.astype(np.float64))
    worst = 0.0
    for axis in axes:
        others = tuple(item for item in range(golden.ndim) if item != axis)
        power = signal.sum(axis=others)
        live = power > 0
        ratio = noise.sum(axis=others)[live] / power[live]
        worst = max(worst, float(ratio.max(initial=0.0)))
    return worst if np.isfinite(worst) else float("inf")
