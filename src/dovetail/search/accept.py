"""Acceptance on samples that the search never saw, in both fidelities of the simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.plan.plan import Plan
from dovetail.search.goal import Goal
from dovetail.search.oracle import Bar, Oracle
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.result import SplitScores
from dovetail.search.trial import Status, Trial

_Z95 = 1.645
"""One-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Say whether a plan holds on the hold-out split."""

    accepted: bool
    summary: str
    trial: Trial
    exact_score: float | None
    loss_bound: float | None

    def scores(self, low: float) -> SplitScores:
        """Return the scores on the hold-out split, given the score of the plan before the search."""
        return SplitScores(
            "holdout",
            self.trial.samples_total,
            self.trial.float_score,
            low,
            self.trial.score,
            self.exact_score,
            self.loss_bound,
        )


def accept(oracle: Oracle, exact: RecordedEvaluator, plan: Plan, goal: Goal) -> Acceptance:
    """Judge a plan on the hold-out split: fast simulation first, then exact integer simulation."""
    allowance = goal.allowance(oracle.float_score)
    trial = oracle.judge(plan, (), Bar(allowance), race=False)
    if trial.status is not Status.PASS:
        lost = oracle.float_score - trial.score
        return Acceptance(False, f"hold-out loss {lost:.4g} exceeds {allowance:.4g}", trial, None, None)
    bound = loss_bound(oracle.losses(plan))
    scores = exact.evaluate(plan, oracle.indices)
    if scores.failure:
        return Acceptance(False, f"exact simulation failed: {scores.failure}", trial, None, bound)
    score = scores.score
    lost = oracle.float_score - score
    if lost > allowance + 1e-12:
        return Acceptance(False, f"exact simulation loses {lost:.4g} > {allowance:.4g}", trial, score, bound)
    return Acceptance(True, f"hold-out loss {max(lost, 0.0):.4g} within {allowance:.4g}", trial, score, bound)


def loss_bound(losses: AnyArray | None) -> float | None:
    """Return the upper 95 % confidence bound of the mean loss, or None for a set-level metric."""
    if losses is None or len(losses) < 2:
        return None
    return float(losses.mean() + _Z95 * np.std(losses, ddof=1) / math.sqrt(len(losses)))
