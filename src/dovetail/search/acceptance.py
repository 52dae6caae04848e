"""Acceptance on samples that the search never saw, in exact simulation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.plan.plan import Plan
from dovetail.search.candidate import Acceptance, Candidate
from dovetail.search.context import SearchContext
from dovetail.search.goal import Goal
from dovetail.search.ledger import Ledger
from dovetail.search.oracle import Oracle
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Status

_Z95 = 1.645
"""One-sided 95 % quantile of the normal distribution."""


def simulate_on_holdout(context: SearchContext, ledger: Ledger, candidate: Candidate) -> Candidate:
    """Return a candidate with what our own simulation says of it on the hold-out split."""
    ledger.asked_holdout.add(candidate.plan.digest)
    evaluators = context.evaluators
    acceptance = accept(evaluators.search, evaluators.holdout, evaluators.exact, candidate.plan, context.request.goal)
    return replace(candidate, acceptance=acceptance)


def ask_holdout(context: SearchContext, ledger: Ledger, candidate: Candidate) -> Candidate:
    """Return a candidate with what the hold-out split says of it, the vendor's simulator and the limits included."""
    candidate = simulate_on_holdout(context, ledger, candidate)
    acceptance = candidate.acceptance
    assert acceptance is not None
    if acceptance.accepted:
        acceptance = _beside_vendor(context, candidate, acceptance)
    if not candidate.within_limits:
        summary = "no plan within the limits meets the target"
        return replace(candidate, acceptance=replace(acceptance, accepted=False, summary=summary))
    looks = len(ledger.asked_holdout)
    tried = f" ({looks} plans were tried on it)" if looks > 1 else ""
    summary = "; ".join((f"{acceptance.summary}{tried}", *candidate.remarks))
    return replace(candidate, acceptance=replace(acceptance, summary=summary))


def _beside_vendor(context: SearchContext, candidate: Candidate, acceptance: Acceptance) -> Acceptance:
    vendor, holdout = context.evaluators.vendor, context.evaluators.holdout
    if vendor is None:
        return acceptance
    context.listener.stage("the vendor's simulator")
    allowance = context.request.goal.allowance(holdout.float_score)
    finding = vendor.judge(candidate.plan, holdout.indices, allowance)
    return replace(acceptance, accepted=finding.accepted, summary=f"{acceptance.summary}; {finding.summary}")


def accept(search: Oracle, holdout: Oracle, exact: RecordedEvaluator, plan: Plan, goal: Goal) -> Acceptance:
    """Judge a plan on the hold-out split in exact integer simulation; the fast one may show at once that it fails.

    Confidence looks at both splits: of many plans that are asked of the hold-out, some are lucky there.
    """
    allowance = goal.allowance(holdout.float_score)
    screened = holdout.screen(plan, Tolerance(allowance))
    if screened.status is not Status.PASS:
        if screened.reason:
            return Acceptance(False, f"fast simulation failed: {screened.reason}", screened)
        lost = screened.float_score - screened.score
        where = "hold-out" if screened.complete else f"the first {screened.samples} samples of the hold-out"
        return Acceptance(False, f"loss {lost:.4g} on {where} exceeds {allowance:.4g}", screened)
    trial, held = holdout.confirm(plan, Tolerance(allowance), exact)
    if trial.status is Status.CANNOT_TEST:
        return Acceptance(False, f"exact simulation failed: {trial.reason}", screened)
    lost, bound = trial.float_score - trial.score, loss_bound(held)
    searched = None if held is None else search.losses(plan)
    losses = None if held is None or searched is None else np.concatenate([searched, held])
    if trial.status is not Status.PASS:
        return Acceptance(False, f"hold-out loss {lost:.4g} exceeds {allowance:.4g}", trial, bound, True, losses)
    stated = f"hold-out loss {max(lost, 0.0):.4g}"
    for whose, sure in (("its", bound), ("over both splits its", loss_bound(losses))) if goal.confident else ():
        if sure is None or sure > allowance:
            text = "unknown: the metric has no score for each sample" if sure is None else f"{sure:.4g}"
            why = f"{stated}, but {whose} 95 % bound is {text} (allowed: {allowance:.4g})"
            return Acceptance(False, why, trial, bound, True, losses)
    return Acceptance(True, f"{stated} within {allowance:.4g}", trial, bound, True, losses)


def loss_bound(losses: AnyArray | None) -> float | None:
    """Return the upper 95 % confidence bound of the mean loss, or None for a set-level metric."""
    if losses is None or len(losses) < 2:
        return None
    return float(losses.mean() + _Z95 * np.std(losses, ddof=1) / math.sqrt(len(losses)))
