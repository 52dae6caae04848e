"""Acceptance on samples that the search never saw, in exact simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.plan.plan import Plan
from dovetail.search.bounds import upper_bound
from dovetail.search.candidate import Acceptance, Candidate
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Status


def simulate_on_holdout(context: SearchContext, ledger: Ledger, candidate: Candidate) -> Candidate:
    """Return a candidate with what our own simulation says of it on the hold-out split."""
    ledger.looked_at.add(candidate.plan.digest)
    return replace(candidate, acceptance=accept(context, candidate.plan))


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
    looks = len(ledger.looked_at)
    tried = f" ({looks} plans were tried on it)" if looks > 1 else ""
    summary = "; ".join((f"{acceptance.summary}{tried}", *candidate.remarks))
    return replace(candidate, acceptance=replace(acceptance, summary=summary))


def _beside_vendor(context: SearchContext, candidate: Candidate, acceptance: Acceptance) -> Acceptance:
    vendor, holdout = context.vendor, context.holdout
    if vendor is None:
        return acceptance
    context.listener.stage("the vendor's simulator")
    allowance = context.request.goal.allowance(holdout.float_score)
    finding = vendor.judge(candidate.plan, holdout.indices, allowance)
    return replace(acceptance, accepted=finding.accepted, summary=f"{acceptance.summary}; {finding.summary}")


def accept(context: SearchContext, plan: Plan) -> Acceptance:
    """Judge a plan on the hold-out split in exact integer simulation; the fast one may show at once that it fails.

    A confident goal looks at both splits: of many plans that are asked of the hold-out, some are lucky there.
    """
    goal, holdout = context.request.goal, context.holdout
    allowance = goal.allowance(holdout.float_score)
    screened = holdout.screen(plan, Tolerance(allowance))
    if screened.status is not Status.PASS:
        if screened.reason:
            return Acceptance(False, f"fast simulation failed: {screened.reason}", screened)
        lost = screened.float_score - screened.score
        where = "hold-out" if screened.complete else f"the first {screened.samples} samples of the hold-out"
        return Acceptance(False, f"loss {lost:.4g} on {where} exceeds {allowance:.4g}", screened)
    trial, held = holdout.confirm(plan, Tolerance(allowance), context.exact)
    if trial.status is Status.CANNOT_TEST:
        return Acceptance(False, f"exact simulation failed: {trial.reason}", screened)
    searched = None if held is None else context.search.losses(plan)
    losses = None if held is None or searched is None else np.concatenate([searched, held])
    bound, estimate = _bound(context, held), _bound(context, losses)
    lost = trial.float_score - trial.score
    summary = f"hold-out loss {lost:.4g} exceeds {allowance:.4g}"
    doubt = ""
    if trial.passed:
        summary = f"hold-out loss {max(lost, 0.0):.4g} within {allowance:.4g}"
        doubt = _doubt(bound, estimate, allowance) if goal.confident else ""
    accepted = trial.passed and not doubt
    return Acceptance(accepted, f"{summary}{doubt}", trial, bound, True, losses, estimate)


def _bound(context: SearchContext, losses: AnyArray | None) -> float | None:
    """Return the upper bound of the mean loss; None without scores of samples, or where losses have no known limit."""
    largest = context.holdout.facts.largest_loss
    if losses is None or largest is None or losses.max() > largest:
        return None
    return upper_bound(losses, largest, context.policy.holdout.confidence)


def _doubt(bound: float | None, estimate: float | None, allowance: float) -> str:
    """Return why one cannot be confident, or nothing."""
    if bound is None or estimate is None:
        return ", but its bound is unknown: samples have no scores, or none within 0 and 1"
    if bound > allowance:
        return f", but its bound is {bound:.4g}"
    return f", but both splits together give {estimate:.4g} for its bound" if estimate > allowance else ""
