"""What becomes of a candidate on the hold-out split: accepted as it is, made cheaper, or given a margin."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from dovetail.search.acceptance import ask_holdout, simulate_on_holdout
from dovetail.search.candidate import Candidate
from dovetail.search.cheapest import cheapest, with_proof_of
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.margin import with_margin
from dovetail.search.tolerance import Tolerance

REFUSED_COUNT = "for the bound, what the hold-out split refused counts as failing"


def agrees(context: SearchContext, ledger: Ledger, candidate: Candidate) -> bool:
    """Tell whether the hold-out split agrees with a plan, or with one that has a margin besides."""
    return with_margin(context, ledger, simulate_on_holdout(context, ledger, candidate)).accepted


def settle(context: SearchContext, ledger: Ledger, candidate: Candidate, tolerances: Sequence[Tolerance]) -> Candidate:
    """Return what becomes of a candidate that the hold-out split was asked of: it may be accepted as another one.

    What was accepted although nobody looked for the cheapest plan is made cheaper; what needs a margin gets one.
    """
    unproven = candidate.certificate is None
    if candidate.accepted and unproven:
        return with_margin(context, ledger, _cheaper_accepted(context, ledger, candidate, tolerances))
    context.listener.stage("margin")
    settled = with_margin(context, ledger, candidate)
    if settled.accepted and unproven:
        return with_margin(context, ledger, _cheaper(context, ledger, candidate, tolerances)[0])
    return settled


def _cheaper(
    context: SearchContext,
    ledger: Ledger,
    candidate: Candidate,
    tolerances: Sequence[Tolerance],
    refused: Collection[str] = (),
) -> tuple[Candidate, Candidate]:
    """Return a candidate that was not searched for with what is proven of cheaper ones, and the cheapest plan instead.

    Both meet the last tolerance that the plan does. They are the same where it meets none, or nothing prices plans.
    """
    if context.prover is None or context.is_limited or not candidate.raised:
        return candidate, candidate
    prover = context.prover.for_unsearched
    met = (item for item in reversed(tolerances) if ledger.judge(candidate.raised, item, spare=True).passed)
    tolerance = next(met, None)
    if tolerance is None:
        return candidate, candidate
    instead = cheapest(context, ledger, candidate, tolerance, prover, refused)
    return with_proof_of(candidate, instead, prover), instead


def _cheaper_accepted(
    context: SearchContext, ledger: Ledger, candidate: Candidate, tolerances: Sequence[Tolerance]
) -> Candidate:
    """Return the cheapest plan that the hold-out split accepts in a few looks, given one that it does."""
    refused: list[str] = []
    proven = candidate
    for _ in range(context.policy.holdout.looks):
        context.listener.stage("cheapest")
        proven, instead = _cheaper(context, ledger, candidate, tolerances, refused)
        if instead.plan.digest == candidate.plan.digest:
            break
        if instead.plan.digest not in ledger.refused:
            context.listener.stage("hold-out")
            instead = ask_holdout(context, ledger, instead)
            if instead.accepted:
                return instead
        refused.append(instead.plan.digest)
    if proven is candidate or proven.acceptance is None:
        return candidate
    summary = f"{proven.acceptance.summary}; units are raised without proof: {REFUSED_COUNT}"
    return replace(proven, acceptance=replace(proven.acceptance, summary=summary))
