"""A look at the hold-out split: what it says of a candidate, the vendor's simulator and the limits included."""

from __future__ import annotations

from dataclasses import replace

from dovetail.search.acceptance import Acceptance, accept
from dovetail.search.candidate import Candidate
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger


def glance_at_holdout(context: SearchContext, ledger: Ledger, candidate: Candidate) -> Candidate:
    """Return a candidate with what our own simulation says of it on the hold-out split."""
    ledger.asked_holdout.add(candidate.plan.digest)
    evaluators = context.evaluators
    acceptance = accept(evaluators.search, evaluators.holdout, evaluators.exact, candidate.plan, context.request.goal)
    return replace(candidate, acceptance=acceptance)


def ask_holdout(context: SearchContext, ledger: Ledger, candidate: Candidate) -> Candidate:
    """Return a candidate with what the hold-out split says of it; only what keeps the limits is accepted."""
    candidate = glance_at_holdout(context, ledger, candidate)
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
