"""Acceptance: what samples say of a plan that did not select it, in exact simulation.

A plan that the search selected is judged by the hold-out alone; the low plan, which nothing selected, by both splits.
Every look takes half of the doubt that is left, so that all bounds together hold with the stated confidence.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.precision import Precision
from dovetail.plan.plan import Plan
from dovetail.search.bounds import Interval, LossRange, log_wealth_above
from dovetail.search.candidate import Acceptance, Candidate, refused
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.policy import AcceptancePolicy
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Status
from dovetail.search.verdict import Assessment, Verdict, assess, assess_mean


def judge_selected(context: SearchContext, ledger: Ledger, candidate: Candidate) -> Candidate:
    """Return a candidate with what the hold-out split says of it; the fast simulation may show at once that it fails.

    The vendor's simulator is asked of what meets the goal. A plan is looked at once.
    """
    known = ledger.judged.get(candidate.plan.digest)
    if known is not None:
        return replace(candidate, acceptance=known.acceptance)
    doubt = look_doubt(context.policy.acceptance, ledger.looks + 1)
    acceptance = _by_holdout(context, candidate, doubt)
    if acceptance.assessment.verdict.is_within:
        candidate, acceptance = _beside_vendor(context, candidate, acceptance)
    if not candidate.within_limits:
        acceptance = refused(acceptance, "no plan within the limits meets the target")
    return _remembered(ledger, replace(candidate, acceptance=acceptance))


def judge_unselected(context: SearchContext, ledger: Ledger, candidate: Candidate) -> Candidate:
    """Return a candidate that no sample selected with what both splits say of it.

    The hold-out is not looked at where the search split alone leaves no doubt that the goal is missed.
    """
    search, holdout, plan = context.search, context.holdout, candidate.plan
    doubt = look_doubt(context.policy.acceptance, ledger.looks_before + 1)
    allowance = context.request.goal.allowance(mean_of_both(context, search.float_score, holdout.float_score))
    searched = search.losses(plan)
    trial = search.judge(plan, tuple(candidate.raised), Tolerance(allowance), race=False)
    if searched is not None:
        alone = assess(searched, search.loss_range, doubt, allowance)
        if alone.interval is not None and alone.surely_missed:
            held = holdout.judge(plan, tuple(candidate.raised), Tolerance(allowance))
            return _remembered(ledger, replace(candidate, acceptance=Acceptance(alone, held)))
    if trial.status is Status.CANNOT_TEST:
        assessment = _failed(f"fast simulation failed: {trial.reason}", allowance)
        return _remembered(ledger, replace(candidate, acceptance=Acceptance(assessment, trial)))
    acceptance = _by_holdout(context, candidate, doubt, screens=False)
    if acceptance.exact and searched is not None and acceptance.losses is not None:
        pooled = np.concatenate([searched, acceptance.losses])
        assessment = assess(pooled, _wider(search.loss_range, holdout.loss_range), doubt, allowance)
        acceptance = replace(acceptance, assessment=assessment)
    elif acceptance.exact:
        loss = mean_of_both(context, trial.float_score - trial.score, acceptance.assessment.loss)
        count = search.sample_count + holdout.sample_count
        acceptance = replace(acceptance, assessment=assess_mean(loss, count, allowance))
    if acceptance.assessment.verdict.is_within:
        candidate, acceptance = _beside_vendor(context, candidate, acceptance)
    return _remembered(ledger, replace(candidate, acceptance=acceptance))


def look_doubt(policy: AcceptancePolicy, look: int) -> float:
    """Return how often each bound of a look, counted from 1, may be wrong: all looks add up to the policy's doubt."""
    return float((1 - policy.confidence) / 2**look)


def is_worth_it(context: SearchContext, cheaper: Candidate, dearer: Candidate) -> bool:
    """Tell whether a dearer plan is shown to be better than a cheaper one, by enough to be worth its latency.

    The two are compared sample by sample on the hold-out, by bets that the dearer one loses less: the dearer it is, the
    more wealth they have to bring. Where samples have no scores nothing can be shown, and the verdicts count.
    """
    first, second, limits = cheaper.acceptance, dearer.acceptance, context.holdout.loss_range
    assert first is not None
    assert second is not None
    if first.losses is None or second.losses is None:
        return True
    wealth = _log_wealth(first.losses - second.losses, limits)
    return wealth + 1e-12 >= needed_log_wealth(context, cheaper, dearer)


def _log_wealth(gains: AnyArray, limits: LossRange | None) -> float:
    """Return the logarithm of the wealth of bets that a plan is better by such gains; half the stake is on how often.

    Losses that are small beside what a sample could lose bring bets on their size next to nothing. Where nothing says
    how much a sample can gain, only which plan does better on it counts.
    """
    often = log_wealth_above(np.sign(gains), 0.0, -1.0)
    if limits is None or limits.largest <= 0:
        return often
    size = log_wealth_above(gains, 0.0, -limits.largest)
    return float(np.logaddexp(size, often)) - math.log(2)


def needed_log_wealth(context: SearchContext, cheaper: Candidate, dearer: Candidate) -> float:
    """Return the logarithm of the wealth that pays for a plan; 0 where it is not dearer, or nothing is priced."""
    return doublings(context, cheaper, dearer) * math.log(1 / context.policy.acceptance.doubled)


def doublings(context: SearchContext, cheaper: Candidate, dearer: Candidate) -> float:
    """Return how often the latency doubles from one plan to another; 0 where it is no longer, or nothing is priced."""
    if context.prover is None:
        return 0.0
    before, after = (context.prover.latency_ns(item.placements) for item in (cheaper, dearer))
    return math.log2(after / before) if 0 < before < after else 0.0


def _by_holdout(context: SearchContext, candidate: Candidate, doubt: float, *, screens: bool = True) -> Acceptance:
    holdout, plan = context.holdout, candidate.plan
    allowance = context.request.goal.allowance(holdout.float_score)
    if screens:
        screened = holdout.screen(plan, Tolerance(allowance))
        if screened.status is not Status.PASS:
            lost = screened.float_score - screened.score
            where = "the hold-out" if screened.complete else f"the first {screened.samples} samples of the hold-out"
            reason = f"loss {lost:.2g} on {where}, {allowance:.3g} allowed"
            if screened.status is Status.CANNOT_TEST:
                reason = f"fast simulation failed: {screened.reason}"
            return Acceptance(_failed(reason, allowance, lost), screened)
    trial, losses = holdout.confirm(plan, Tolerance(allowance), context.exact)
    if trial.status is Status.CANNOT_TEST:
        return Acceptance(_failed(f"exact simulation failed: {trial.reason}", allowance), trial)
    if losses is None:
        assessment = assess_mean(trial.float_score - trial.score, trial.samples, allowance)
    elif allowance >= 0 and not losses.any() and _is_float(context, plan):
        # It is the float model itself: no sample can show otherwise.
        assessment = Assessment(Verdict.MET, 0.0, allowance, trial.samples, Interval(0.0, 0.0))
    else:
        assessment = assess(losses, holdout.loss_range, doubt, allowance)
    return Acceptance(assessment, trial, exact=True, losses=losses)


def _is_float(context: SearchContext, plan: Plan) -> bool:
    """Tell whether a plan computes every node of the model as shipped in single precision."""
    shipped, nodes = not context.request.repairs, context.request.graph.nodes
    return shipped and all(plan.placement(node.name).precision is Precision.FP32 for node in nodes)


def _beside_vendor(
    context: SearchContext, candidate: Candidate, acceptance: Acceptance
) -> tuple[Candidate, Acceptance]:
    vendor, holdout = context.vendor, context.holdout
    if vendor is None:
        return candidate, acceptance
    context.listener.stage("the vendor's simulator")
    allowance = context.request.goal.allowance(holdout.float_score)
    finding = vendor.judge(candidate.plan, holdout.indices, allowance)
    if not finding.accepted:
        return candidate, refused(acceptance, finding.summary)
    return replace(candidate, remarks=(*candidate.remarks, finding.summary)), acceptance


def _remembered(ledger: Ledger, candidate: Candidate) -> Candidate:
    ledger.judged[candidate.plan.digest] = candidate
    return candidate


def _failed(reason: str, allowance: float, loss: float = math.inf) -> Assessment:
    return Assessment(Verdict.MISSED, loss if math.isfinite(loss) else math.inf, allowance, 0, reason=reason)


def mean_of_both(context: SearchContext, searched: float, held: float) -> float:
    """Return the mean over the samples of both splits."""
    counts = context.search.sample_count, context.holdout.sample_count
    return float(np.average((searched, held), weights=counts))


def _wider(first: LossRange | None, second: LossRange | None) -> LossRange | None:
    if first is None or second is None:
        return None
    return LossRange(min(first.least, second.least), max(first.largest, second.largest))
