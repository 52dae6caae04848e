"""Repairs that cost latency compete with more bits by price: a plan with one is kept where it is cheaper.

They spare units that a plan raises: for nothing but their own weights (splits), or for the ranges of products with
gates. So they are tried once that plan is known, and their gain may not be chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dovetail.plan.placement import Placement
from dovetail.repair import HealedModel
from dovetail.search.context import SearchContext
from dovetail.search.result import Healing, RepairTrial, TuneCost, TuneResult
from dovetail.search.verdict import Verdict

_SURENESS = (Verdict.MISSED, Verdict.LIKELY, Verdict.MET)


@dataclass(frozen=True, slots=True)
class RepairOffer:
    """A graph on which a cheaper plan may be found, and what everything low scores there."""

    repaired: HealedModel
    trial: RepairTrial
    spares: tuple[frozenset[str], ...] = ()
    """Sets of nodes, the largest first, that may stay low on it where the plan without it raises them; none where it
    has other nodes in their place."""


def settle(
    context: SearchContext, offer: RepairOffer, without: TuneResult, search: Callable[[], TuneResult]
) -> TuneResult:
    """Return the better of two answers: that without a repair, and what a search over the repaired graph gives.

    There is no search where everything low on that graph takes as long as the answer without, or where what it spares
    cannot stay low.
    """
    cheapest_ns, latency_ns = _least_ns(context), _latency_ns(without)
    if not cheapest_ns < latency_ns:
        reason = (
            f"everything low with it takes {cheapest_ns / 1e6:.4g} ms, the plan without it {latency_ns / 1e6:.4g} ms"
        )
        return unpaid(without, offer.trial.kind, reason)
    if not _may_spare(context, offer, without):
        reason = "the plan without it, less what it may spare, takes as long or misses the goal"
        return unpaid(without, offer.trial.kind, reason)
    answer = search()
    cost, healing = together(without.cost, answer.cost), without.healing
    assert healing is not None
    if not _is_better(answer, without, context.request.costs.worthwhile):
        figures = f"{answer.verdict.value} at {_latency_ns(answer) / 1e6:.4g} ms"
        reason = f"the plan with it is {figures}, without it {without.verdict.value} at {latency_ns / 1e6:.4g} ms"
        return unpaid(replace(without, cost=cost, looks=answer.looks), offer.trial.kind, reason)
    return replace(with_repair(answer, offer, healing, latency_ns), cost=cost)


def with_repair(
    answer: TuneResult, offer: RepairOffer, healing: Healing, latency_without_ns: float | None = None
) -> TuneResult:
    """Return an answer over a graph with a repair that costs latency, which says so.

    Without the other latency no plan without the repair was looked for: not even everything raised would do.
    """
    trial = replace(offer.trial, latency_ns=_latency_ns(answer), latency_without_ns=latency_without_ns)
    healing = replace(healing, healed=trial.score, trials=(*healing.trials, trial))
    return replace(answer, healing=healing, repaired=offer.repaired)


def _may_spare(context: SearchContext, offer: RepairOffer, without: TuneResult) -> bool:
    """Tell whether a plan may leave low what a repair spares and be cheaper.

    A split has other nodes in their place: what it promises was asked before it was offered. What only goes along with
    culprits may stay low without them.
    """
    if context.prover is None or not offer.spares:
        return True
    plans = [
        {item.unit: item.placement for item in raised if item.unit in context.space.units and item.unit not in spared}
        for spared in offer.spares
        for raised in (without.raised, without.culprits)
    ]
    return any(_is_cheaper(context, places, without) for places in plans)


def _is_cheaper(context: SearchContext, places: Mapping[str, Placement], without: TuneResult) -> bool:
    """Tell whether a plan that raises some units is cheaper than an answer and passes on the search split."""
    assert context.prover is not None
    if context.prover.latency_ns(places) > (1 - context.policy.budget.worthwhile) * _latency_ns(without):
        return False
    plan = context.space.plan({unit: context.override(unit, place, tested=False) for unit, place in places.items()})
    return context.search.judge(plan, tuple(places), context.tolerance).passed


def unpaid(result: TuneResult, kind: str, reason: str) -> TuneResult:
    """Return an answer that says why a repair is not worth what it costs."""
    assert result.healing is not None
    return replace(result, healing=replace(result.healing, unpaid=(*result.healing.unpaid, f"{kind}: {reason}")))


def _least_ns(context: SearchContext) -> float:
    return math.inf if context.prover is None else context.prover.model.plan_cost(context.space.base).latency_ns


def _latency_ns(result: TuneResult) -> float:
    return math.inf if result.certificate is None else result.certificate.cost.latency_ns


def _is_better(answer: TuneResult, without: TuneResult, worthwhile: float) -> bool:
    """Tell whether a plan on a repaired graph meets the goal, is as sure as the other one, and cheaper.

    A dearer one is never taken: that it meets a goal which the other misses may be due to another look at the hold-out.
    """
    sure = _SURENESS.index(answer.verdict) >= _SURENESS.index(without.verdict)
    cheaper = _latency_ns(answer) < (1 - worthwhile) * _latency_ns(without)
    return answer.verdict.is_within and sure and cheaper


def together(first: TuneCost, second: TuneCost) -> TuneCost:
    """Return the cost of two searches, of which the second went on counting samples and seconds."""
    trials, early = first.trials + second.trials, first.rejected_early + second.rejected_early
    untried = tuple(dict.fromkeys((*first.untried, *second.untried)))
    return replace(second, trials=trials, rejected_early=early, untried=untried)
