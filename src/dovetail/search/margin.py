"""A margin: raise a little more than the samples demand, where they are too few to show that the goal is met.

A set that is as small as the samples allow fits these samples, and loses more on others. The units whose noise alone is
largest go up too while that costs next to nothing; noise is a mean over many values, so that a few samples tell it, and
nothing is chosen by the scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override
from dovetail.search.acceptance import ask_holdout
from dovetail.search.candidate import Candidate
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.policy import MarginPolicy
from dovetail.search.proof import Prover
from dovetail.search.result import Margin
from dovetail.search.sensitivity import affordable_order

_REASON = "raised for the margin: alone it makes more noise than others, and it hardly costs anything"


def with_margin(context: SearchContext, ledger: Ledger, candidate: Candidate) -> Candidate:
    """Return a candidate that was asked of the hold-out with a margin where its loss may be beyond the goal.

    It gets one if the hold-out split accepts it then, and fewer samples differ from float, or by less.
    """
    acceptance = candidate.acceptance
    if acceptance is None or acceptance.losses is None or acceptance.estimate is None:
        return candidate
    before = acceptance.losses
    plain = Margin(len(before), context.tolerance.allowance, acceptance.estimate, acceptance.estimate)
    candidate = replace(candidate, margin=plain)
    prover = context.prover
    if prover is None or (candidate.accepted and plain.is_within) or not _may_have_one(prover, candidate):
        return candidate
    tried = {candidate.plan.digest}
    for share in context.policy.margin.shares:
        wider = _wider(context, ledger, candidate, prover, share * prover.options.margin)
        if wider is None or wider.plan.digest in tried:
            continue
        tried.add(wider.plan.digest)
        wider = ask_holdout(context, ledger, wider)
        after = wider.acceptance
        if after is None or not after.accepted or after.losses is None or after.estimate is None:
            continue
        # Not the means are compared: the plan was selected for a mean that looks good, but not for its spread.
        if after.losses.std() < before.std():
            return replace(wider, margin=replace(plain, estimate=after.estimate))
    return candidate


def _may_have_one(prover: Prover, candidate: Candidate) -> bool:
    has_room = prover.options.margin > 0 and candidate.within_limits
    return has_room and bool(candidate.raised) and not candidate.margin_units


def _wider(
    context: SearchContext, ledger: Ledger, candidate: Candidate, prover: Prover, share: float
) -> Candidate | None:
    """Return a plan that raises more, for a share of the latency, and passes; None where there is none."""
    order = affordable_order(context, ledger)
    more = affordable(prover, candidate.placements, order, share, context.policy.margin)
    if not more:
        return None
    raised = {**candidate.raised, **{unit: Override(place, _REASON) for unit, place in more.items()}}
    if not ledger.judge(raised, context.tolerance, spare=True).passed:
        return None
    plan = context.space.plan(raised)
    proof = candidate.certificate
    if proof is not None:
        cost = prover.model.plan_cost(plan)
        proof = replace(proof, cost=cost, margin_ns=cost.latency_ns - proof.cost.latency_ns)
    return replace(candidate, plan=plan, raised=raised, certificate=proof, margin_units=frozenset(more))


def affordable(
    prover: Prover, raised: Mapping[str, Placement], order: Sequence[str], share: float, policy: MarginPolicy
) -> dict[str, Placement]:
    """Return what can be raised besides, by the first rung, within a share of the latency.

    `order` lists all units, the worst first. Raising one may make its neighbour cheaper, or free.
    """
    problem, priced = prover.priced.problem, prover.priced
    levels = list(priced.assignment(raised))
    left_ns = share * problem.cost(levels)
    rest = [unit for unit in order if unit not in raised][: policy.units if share > 0 else 0]
    more: dict[str, Placement] = {}
    for _ in range(policy.passes):
        for unit, number in zip(rest, priced.numbers(rest), strict=True):
            added_ns = problem.added_ns(levels, number, 1)
            if added_ns <= left_ns:
                more[unit] = prover.space.rung(unit, False)
                levels[number] = 1
                left_ns -= added_ns
        if len(rest) == len(rest := [unit for unit in rest if unit not in more]):
            break
    return more if more and prover.allows({**raised, **more}) else {}
