"""Splits compete with more bits by price: a plan on split nodes is kept where it is cheaper and its gain no chance.

A split costs latency, and spares units that a plan raises for nothing but their own weights. So it is tried once that
plan is known, for those units alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dovetail.repair import PRICED, HealedModel, repair
from dovetail.search.context import Playback, SearchContext
from dovetail.search.healing import trial_of
from dovetail.search.result import RepairTrial, TuneCost, TuneResult
from dovetail.search.variants import VariantJudge
from dovetail.search.verdict import Verdict

_SURENESS = (Verdict.MISSED, Verdict.LIKELY, Verdict.MET)


@dataclass(frozen=True, slots=True)
class SplitOffer:
    """A graph on which a cheaper plan may be found, and what everything low scores there."""

    repaired: HealedModel
    trial: RepairTrial


def offer_split(
    context: SearchContext, playback: Playback | None, result: TuneResult
) -> tuple[TuneResult, SplitOffer | None]:
    """Return the answer of a search with what a split of nodes that it raises would do, and the split if that is good.

    It has to be allowed, and everything low has to score better with it, beyond chance. Without prices it cannot
    compete.
    """
    request, healing = context.request, result.healing
    allowed = PRICED.intersection(request.options.repairs)
    if not allowed or healing is None or result.certificate is None:
        return result, None
    raised = frozenset(node for culprit in result.raised for node in culprit.nodes)
    start = HealedModel(request.graph, request.calibration, request.repairs)
    variant = repair(start, tuple(allowed), request.low.precision.weight.per_channel, raised)
    if variant.graph is start.graph:
        return result, None
    judge, record = VariantJudge(context, playback), variant.records[-1]
    refusal = judge.refusal(variant)
    if refusal:
        refused = (*healing.refused, f"{record.kind}: {refusal}")
        return replace(result, healing=replace(healing, refused=refused)), None
    before, after = judge.figures(start), judge.figures(variant)
    if before is None or after is None:
        return _unpaid(result, record.kind, "it cannot be tested"), None
    if after.gain_over(before, context.policy.repair.errors) <= 0:
        return _unpaid(result, record.kind, "with everything low it gains nothing beyond chance"), None
    return result, SplitOffer(variant, trial_of(record, after.score, before.score))


def settle_split(
    context: SearchContext, offer: SplitOffer, without: TuneResult, search: Callable[[], TuneResult]
) -> TuneResult:
    """Return the better of two answers: that without splits, and what a search over the split graph gives.

    There is no search where everything low on the split graph takes as long as the answer without.
    """
    cheapest_ns, latency_ns = _least_ns(context), _latency_ns(without)
    if not cheapest_ns < latency_ns:
        reason = (
            f"everything low with it takes {cheapest_ns / 1e6:.4g} ms, the plan without it {latency_ns / 1e6:.4g} ms"
        )
        return _unpaid(without, offer.trial.kind, reason)
    answer = search()
    cost, healing = _together(without.cost, answer.cost), without.healing
    assert healing is not None
    if not _is_better(answer, without, context.request.costs.worthwhile):
        figures = f"{answer.verdict.value} at {_latency_ns(answer) / 1e6:.4g} ms"
        reason = f"the plan with it is {figures}, without it {without.verdict.value} at {latency_ns / 1e6:.4g} ms"
        return _unpaid(replace(without, cost=cost), offer.trial.kind, reason)
    trial = replace(offer.trial, latency_ns=_latency_ns(answer), latency_without_ns=latency_ns)
    healing = replace(healing, healed=trial.score, trials=(*healing.trials, trial))
    return replace(answer, cost=cost, healing=healing, repaired=offer.repaired)


def _unpaid(result: TuneResult, kind: str, reason: str) -> TuneResult:
    """Return an answer that says why a repair is not worth what it costs."""
    assert result.healing is not None
    return replace(result, healing=replace(result.healing, unpaid=(f"{kind}: {reason}",)))


def _least_ns(context: SearchContext) -> float:
    return math.inf if context.prover is None else context.prover.model.plan_cost(context.space.base).latency_ns


def _latency_ns(result: TuneResult) -> float:
    return math.inf if result.certificate is None else result.certificate.cost.latency_ns


def _is_better(answer: TuneResult, without: TuneResult, worthwhile: float) -> bool:
    """Tell whether a plan on split nodes meets the goal, is as sure as the other one, and cheaper.

    A dearer one is never taken: that it meets a goal which the other misses may be due to another look at the hold-out.
    """
    sure = _SURENESS.index(answer.verdict) >= _SURENESS.index(without.verdict)
    cheaper = _latency_ns(answer) < (1 - worthwhile) * _latency_ns(without)
    return answer.verdict.is_within and sure and cheaper


def _together(first: TuneCost, second: TuneCost) -> TuneCost:
    """Return the cost of two searches, of which the second went on counting samples and seconds."""
    trials, early = first.trials + second.trials, first.rejected_early + second.rejected_early
    return replace(second, trials=trials, rejected_early=early)
