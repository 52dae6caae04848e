"""Which gates to free where a plan raises what is around them: as many as are worth their latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.repair import REPAIRS, FreeGates, HealedModel, find_gates, repair, spared_nodes
from dovetail.search.context import Playback, SearchContext
from dovetail.search.healing import trial_of
from dovetail.search.offers import RepairOffer, unpaid
from dovetail.search.result import TuneResult
from dovetail.search.variants import PricedFigures, VariantJudge

_KIND, _FOLLOWS = FreeGates().kind, "equalise-stored"


Measure = Callable[[tuple[str, ...]], PricedFigures | None]
"""Return what freeing the gates of some tensors gives; None for what cannot be tested."""


@dataclass(frozen=True, slots=True)
class FreeingTerms:
    """What a variant has to do to be taken."""

    least_score: float
    """The score that meets the goal."""
    errors: float
    """Standard errors of the gain that chance explains."""


def offer_gates(
    context: SearchContext, playback: Playback | None, shipped: HealedModel, result: TuneResult
) -> tuple[TuneResult, RepairOffer | None]:
    """Return the answer of a search with what freed gates would do, and the repair if that promises a cheaper plan.

    It has to be allowed, with the equalisation that makes use of it, and the answer has to raise what is around gates.
    """
    request, healing = context.request, result.healing
    if not {_KIND, _FOLLOWS} <= {*request.options.repairs} or healing is None or result.certificate is None:
        return result, None
    raised = {node for culprit in result.raised for node in culprit.nodes}
    graph, policy = shipped.graph, context.policy.repair
    groups = find_gates(graph, shipped.calibration.statistics) if raised else []
    groups = [group for group in groups if spared_nodes(graph, group)[0] & raised][: policy.most_gates]
    variants = _Variants(context, VariantJudge(context, playback), shipped)
    start = variants.measured(HealedModel(request.graph, request.calibration, request.repairs)) if groups else None
    if start is None:
        return result, None
    goal = context.search.float_score - context.tolerance.allowance
    chosen = choose_gates(groups, start, variants.freed, FreeingTerms(goal, policy.errors))
    found = variants.freed(chosen) if chosen else None
    if found is None:
        return unpaid(result, _KIND, "with everything low it gains too little for what it takes"), None
    near, readers = spared_nodes(graph, chosen)
    variant = variants.variant(chosen)
    record = next(item for item in variant.records if item.kind == _KIND)
    return result, RepairOffer(
        variant, trial_of(record, found.figures.score, start.figures.score), (near | readers, near)
    )


@dataclass(frozen=True, slots=True)
class _Variants:
    """The graph as shipped, healed as it is, with gates freed."""

    context: SearchContext
    judge: VariantJudge
    shipped: HealedModel

    def variant(self, tensors: tuple[str, ...]) -> HealedModel:
        """Return the graph with some gates freed."""
        request = self.context.request
        healed = {record.kind for record in request.repairs if not record.kind.startswith("equalise")}
        kinds = tuple(kind for kind in REPAIRS if kind in healed | {_KIND, _FOLLOWS})
        per_channel = request.low.precision.weight.per_channel
        return repair(self.shipped, kinds, per_channel, needed=request.needed, gates=tensors)

    def freed(self, tensors: tuple[str, ...]) -> PricedFigures | None:
        """Return what freeing gates gives; None where float moves, or what cannot be tested or priced."""
        variant = self.variant(tensors)
        return None if self.judge.refusal(variant) else self.measured(variant)

    def measured(self, variant: HealedModel) -> PricedFigures | None:
        """Return what everything low gives and takes; None for what cannot be tested or priced."""
        return self.judge.priced(variant, self.context.request.needed)


def choose_gates(
    groups: Sequence[tuple[str, ...]], start: PricedFigures, measure: Measure, terms: FreeingTerms
) -> tuple[str, ...]:
    """Return the tensors whose gates to free; none where nothing is worth its latency.

    Groups come in the order of what they promise; as many as 1, 2, 4, ... are tried at once. More are freed where
    scores are better beyond chance, and leave as many times less of what is lost beyond the goal as it takes longer.
    """
    best, chosen = start, tuple[str, ...]()
    for count in doubling(len(groups)):
        tensors = tuple(name for group in groups[:count] for name in group)
        found = measure(tensors)
        if found is not None and _is_worth_it(found, best, terms):
            best, chosen = found, tensors
    return chosen


def doubling(most: int) -> list[int]:
    """Return 1, 2, 4, ... and what is there at most."""
    counts = [1 << power for power in range(most.bit_length())]
    return sorted({*counts, most} - {0})


def _is_worth_it(found: PricedFigures, best: PricedFigures, terms: FreeingTerms) -> bool:
    if found.figures.gain_over(best.figures, terms.errors) <= 0:
        return False
    left, lost = (max(0.0, terms.least_score - item.figures.score) for item in (found, best))
    return left * found.latency_ns < lost * best.latency_ns
