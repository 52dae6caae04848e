"""Which nodes to split by the ranges of their weights: what a plan raises, or where it raises much, what pays.

A plan of few raised units says which of them a split may spare. One of many is the cheapest by the prices of more bits:
it leaves low what is dear to raise and cheap to split. There all nodes are asked, and as many are split as promise the
cheapest plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dovetail.repair import HealedModel, RepairBasis, SplitRanges, find_splits, repair
from dovetail.search.context import Playback, SearchContext
from dovetail.search.freeing import doubling
from dovetail.search.healing import trial_of
from dovetail.search.offers import RepairOffer, unpaid
from dovetail.search.result import TuneResult
from dovetail.search.variants import PricedFigures, VariantJudge

_KIND = SplitRanges().kind


@dataclass(frozen=True, slots=True)
class SplitTerms:
    """What the plan without splits is, beside which they have to promise a cheaper one."""

    least_score: float
    """The score that meets the goal."""
    latency_ns: float
    """What the plan takes."""
    low_ns: float
    """What everything low takes without splits, by the same prices; variants are compared by those that ship."""
    errors: float
    """Standard errors of the gain that chance explains."""
    worthwhile: float
    """Share of its latency that is worth a search."""


def offer_split(
    context: SearchContext, playback: Playback | None, result: TuneResult
) -> tuple[TuneResult, RepairOffer | None]:
    """Return the answer of a search with what splits would do, and the splits if they promise a cheaper plan.

    They have to be allowed, the answer has to raise something, and everything low has to score better with them, beyond
    chance. Without prices they cannot compete.
    """
    request, healing = context.request, result.healing
    if _KIND not in request.options.repairs or healing is None or result.certificate is None:
        return result, None
    start = HealedModel(request.graph, request.calibration, request.repairs)
    variants = _Variants(context, VariantJudge(context, playback), start)
    raised = frozenset(node for culprit in result.raised for node in culprit.nodes)
    if len(result.raised) >= context.policy.culprits.many:
        return _offer_many(variants, result)
    variant = variants.variant(raised)
    return (result, None) if variant.graph is start.graph else _offer(variants, variant, result)


def choose_splits(
    nodes: Sequence[str],
    start: PricedFigures,
    measure: Callable[[frozenset[str]], PricedFigures | None],
    terms: SplitTerms,
) -> frozenset[str]:
    """Return the nodes to split; none where no number of them promises a cheaper plan.

    Nodes come in the order of what they gain. All are tried first, then fewer, as long as that promises more. A plan is
    taken to pay for what everything low loses beyond the goal in proportion to that.
    """
    lost = terms.least_score - start.figures.score
    best_ns, chosen = (1 - terms.worthwhile) * terms.latency_ns, frozenset[str]()
    for count in reversed(doubling(len(nodes)) if lost > 0 else []):
        found = measure(frozenset(nodes[:count]))
        promised_ns = float("inf")
        if found is not None and found.figures.gain_over(start.figures, terms.errors) > 0:
            left = max(0.0, terms.least_score - found.figures.score) / lost
            low_ns = terms.low_ns * found.latency_ns / start.latency_ns
            promised_ns = low_ns + left * (terms.latency_ns - terms.low_ns)
        if promised_ns < best_ns:
            best_ns, chosen = promised_ns, frozenset(nodes[:count])
        elif chosen:
            break
    return chosen


@dataclass(frozen=True, slots=True)
class _Variants:
    """The graph that was searched, with nodes split."""

    context: SearchContext
    judge: VariantJudge
    start: HealedModel

    def variant(self, nodes: frozenset[str]) -> HealedModel:
        """Return the graph with those nodes split that lose by their weights."""
        return repair(self.start, (_KIND,), self.context.request.low.precision.weight.per_channel, nodes)

    def measured(self, nodes: frozenset[str]) -> PricedFigures | None:
        """Return what everything low gives and takes; None where float moves, or what cannot be tested or priced."""
        variant = self.variant(nodes)
        refused = variant.records == self.start.records or self.judge.refusal(variant)
        return None if refused else self.judge.priced(variant, self.context.request.needed)


def _offer(variants: _Variants, variant: HealedModel, result: TuneResult) -> tuple[TuneResult, RepairOffer | None]:
    """Return the offer of a graph on which everything low is better beyond chance."""
    context, judge, healing = variants.context, variants.judge, result.healing
    assert healing is not None
    record, refusal = variant.records[-1], judge.refusal(variant)
    if refusal:
        refused = (*healing.refused, f"{record.kind}: {refusal}")
        return replace(result, healing=replace(healing, refused=refused)), None
    before, after = (judge.figures(item, context.request.needed) for item in (variants.start, variant))
    if before is None or after is None:
        return unpaid(result, record.kind, "it cannot be tested"), None
    if after.gain_over(before, context.policy.repair.errors) <= 0:
        return unpaid(result, record.kind, "with everything low it gains nothing beyond chance"), None
    return result, RepairOffer(variant, trial_of(record, after.score, before.score))


def _offer_many(variants: _Variants, result: TuneResult) -> tuple[TuneResult, RepairOffer | None]:
    """Return the offer where many units are raised: of all nodes those are split that promise the cheapest plan."""
    context, state = variants.context, variants.start
    request, policy = context.request, context.policy
    everything = frozenset(node for unit in context.space.units.values() for node in unit.nodes)
    per_channel = request.low.precision.weight.per_channel
    nodes = find_splits(RepairBasis(state.graph, state.calibration.statistics, per_channel, everything))
    start = variants.judge.priced(state, request.needed) if nodes else None
    if start is None:
        return result, None
    assert result.certificate is not None
    assert context.prover is not None
    terms = SplitTerms(
        context.search.float_score - context.tolerance.allowance,
        result.certificate.cost.latency_ns,
        context.prover.model.plan_cost(context.space.base).latency_ns,
        policy.repair.errors,
        policy.budget.worthwhile,
    )
    chosen = choose_splits(nodes, start, variants.measured, terms)
    if not chosen:
        reason = "with everything low it gains too little for what it takes"
        return unpaid(result, _KIND, reason), None
    return _offer(variants, variants.variant(chosen), result)
