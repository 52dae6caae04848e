"""The candidates of a search, one after the other: with more and more kept back, and then raised without proof."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dovetail.search.candidate import Candidate
from dovetail.search.cheapest import cheapest, with_proof_of
from dovetail.search.context import SearchContext
from dovetail.search.culprits import find_culprits
from dovetail.search.holdout import REFUSED_COUNT, agrees
from dovetail.search.ledger import Ledger
from dovetail.search.proof import Prover
from dovetail.search.sensitivity import measured_order
from dovetail.search.tolerance import Tolerance


def propose(context: SearchContext, ledger: Ledger, tolerances: Sequence[Tolerance]) -> Iterator[Candidate]:
    """Yield candidates for the hold-out split, until one is accepted; `tolerances` are those of the rounds.

    The last rung of the ladder comes last, unless the goal needs it. When the search split shows no more to raise,
    units are raised without proof.
    """
    last: Candidate | None = None
    steep: list[Tolerance] = []
    for tolerance in tolerances:
        spent = bool(ledger.refused) and ledger.is_exhausted
        # What was tried already is judged anew for nothing.
        candidate = _tried(context, ledger, tolerance) if spent else _searched(context, ledger, tolerance, False)
        if candidate is not None:
            last = candidate
            yield candidate
        elif not spent:
            steep.append(tolerance)
    if last is None:
        last = _searched(context, ledger, context.tolerance, False)
        if last is not None:
            yield last
    yield from _unproven(context, ledger, last, top=False)
    for tolerance in steep:
        if ledger.refused and ledger.is_exhausted:
            break
        candidate = _searched(context, ledger, tolerance, True)
        if candidate is not None:
            last = candidate
            yield candidate
    yield from _unproven(context, ledger, last, top=True)


def _tried(context: SearchContext, ledger: Ledger, tolerance: Tolerance) -> Candidate | None:
    raised = ledger.fewest_raised(tolerance)
    return None if raised is None else context.candidate(dict(raised))


def _searched(context: SearchContext, ledger: Ledger, tolerance: Tolerance, climbs: bool) -> Candidate | None:
    """Return the cheapest plan that meets a tolerance; None when only the last rung could and `climbs` forbids it.

    Without prices it is the first that was found.
    """
    candidate, prover = find_culprits(context, ledger, tolerance, climbs), context.prover
    if candidate is None or prover is None:
        return candidate
    # What cannot be within the limits is not for the hold-out split to judge. To prove what the hold-out split refuses
    # is wasted, and costs more than all the rest of the search.
    if not context.is_limited and not agrees(context, ledger, candidate):
        return candidate
    context.listener.stage("cheapest")
    if context.is_limited:
        return cheapest(context, ledger, candidate, tolerance, prover)
    return _cheapest_agreed(context, ledger, candidate, tolerance, prover)


def _cheapest_agreed(
    context: SearchContext, ledger: Ledger, candidate: Candidate, tolerance: Tolerance, prover: Prover
) -> Candidate:
    """Return the cheapest plan that the hold-out split agrees with in a few looks, given one that it does."""
    # Where much has to be raised, borders may cost more than what is left low saves.
    whole = everything_raised(context, ledger)
    dear = prover.latency_ns(whole.placements) < prover.latency_ns(candidate.placements)
    if dear and ledger.judge(whole.raised, tolerance, spare=True).passed and agrees(context, ledger, whole):
        candidate = whole
    refused: list[str] = []
    instead = cheapest(context, ledger, candidate, tolerance, prover)
    while instead.plan.digest != candidate.plan.digest and not agrees(context, ledger, instead):
        refused.append(instead.plan.digest)
        if len(refused) == context.policy.holdout.looks:
            instead = with_proof_of(candidate, instead, prover)
            break
        instead = cheapest(context, ledger, candidate, tolerance, prover.for_unsearched, refused)
    return replace(instead, remarks=(REFUSED_COUNT,)) if refused else instead


def _unproven(context: SearchContext, ledger: Ledger, last: Candidate | None, top: bool) -> Iterator[Candidate]:
    """Yield plans that raise more and more; what is not good enough for the search split is not for the hold-out."""
    if last is None or not last.within_limits or context.is_limited:
        return
    for share in context.policy.holdout.shares:
        candidate = raised_without_proof(context, ledger, last, share, top)
        if ledger.judge(candidate.raised, context.tolerance, spare=True).passed:
            yield candidate


def raised_without_proof(
    context: SearchContext, ledger: Ledger, candidate: Candidate, share: float, top: bool
) -> Candidate:
    """Return a plan that raises a share of the other units too, those first that do most harm alone; all if faster.

    With `top` a share of all units goes to the last rung. For samples too few to show a loss: nothing says that each of
    these units is needed.
    """
    order = measured_order(context, ledger)
    rest = order if top else [unit for unit in order if unit not in candidate.raised]
    rung = top or ledger.starts_at_top
    more = context.raised(rest[: math.ceil(share * len(rest))], top=rung, tested=False)
    raised = {**more, **candidate.raised, **(more if top else {})}
    wider = context.candidate({unit: raised[unit] for unit in order if unit in raised})
    whole, prover = everything_raised(context, ledger, top), context.prover
    dear = prover is not None and prover.latency_ns(wider.placements) > prover.latency_ns(whole.placements)
    return whole if dear else wider


def everything_raised(context: SearchContext, ledger: Ledger, top: bool = False) -> Candidate:
    """Return the plan that raises every unit, with `top` to the last rung."""
    return context.candidate(context.raised(context.order, top=top or ledger.starts_at_top, tested=False))
