"""Which gates to free where a plan raises what is around them: as many as are worth their latency."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from dovetail.repair import REPAIRS, FreeGates, HealedModel, find_gates, repair, spared_nodes
from dovetail.search.acceptance import judge_selected
from dovetail.search.context import Playback, SearchContext
from dovetail.search.healing import trial_of
from dovetail.search.ledger import Ledger
from dovetail.search.offers import RepairOffer, unpaid
from dovetail.search.result import TuneResult
from dovetail.search.selection import reserved
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
    allowed = {_KIND, _FOLLOWS} <= {*context.request.options.repairs}
    if not allowed or result.healing is None or result.certificate is None:
        return result, None
    raised = {node for culprit in result.raised for node in culprit.nodes}
    variants = _Variants(context, VariantJudge(context, playback), shipped)
    goal = context.search.float_score - context.tolerance.allowance
    found = _chosen(variants, raised, goal)
    if isinstance(found, str):
        return (unpaid(result, _KIND, found) if found else result), None
    return result, found


def gates_instead(
    context: SearchContext, ledger: Ledger, playback: Playback | None, shipped: HealedModel
) -> RepairOffer | None:
    """Return freed gates where no plan without them can be selected: everything raised misses what it would have to.

    What is raised then pays for what it leaves of the harm, and the rest has next to nothing to lose. So they are
    judged with everything raised: of what breaks everything low in several places, low plans tell nothing. None where
    gates promise nothing, and where nothing is priced.
    """
    allowed = {_KIND, _FOLLOWS} <= {*context.request.options.repairs} and context.prover is not None
    if not allowed or not find_gates(shipped.graph, shipped.calibration.statistics):
        return None
    if judge_selected(context, ledger, context.candidate({})).verdict.is_within:
        return None
    if not all_raised_misses(context, ledger):
        return None
    variants = _Variants(context, VariantJudge(context, playback), shipped, raised=True)
    goal = context.search.float_score - reserved(context).allowance
    found = _chosen(variants, {node.name for node in shipped.graph.nodes}, goal)
    return None if isinstance(found, str) else found


def all_raised_misses(context: SearchContext, ledger: Ledger) -> bool:
    """Tell whether everything at its first rung misses what a plan has to reach that the search split selects."""
    whole = context.raised(context.order, top=False, tested=False)
    return not ledger.judge(whole, reserved(context)).passed


def _chosen(variants: _Variants, raised: Collection[str], goal: float) -> RepairOffer | str:
    """Return the gates to free around what is raised; why not in words, of which there are none without such gates."""
    context, shipped, policy = variants.context, variants.shipped, variants.context.policy.repair
    groups = find_gates(shipped.graph, shipped.calibration.statistics) if raised else []
    groups = [group for group in groups if spared_nodes(shipped.graph, group)[0] & {*raised}][: policy.most_gates]
    start = variants.measured(variants.start) if groups else None
    if start is None:
        return ""
    chosen = choose_gates(groups, start, variants.freed, FreeingTerms(goal, policy.errors))
    variant = variants.variant(chosen) if chosen else None
    low = None if variant is None else variants.judge.figures(variant, context.request.needed)
    before = variants.judge.figures(variants.start, context.request.needed)
    if variant is None or low is None or before is None:
        return "with everything low it gains too little for what it takes"
    near, readers = spared_nodes(shipped.graph, chosen)
    record = next(item for item in variant.records if item.kind == _KIND)
    return RepairOffer(variant, trial_of(record, low.score, before.score), (near | readers, near))


@dataclass(frozen=True, slots=True)
class _Variants:
    """The graph as shipped, healed as it is, with gates freed."""

    context: SearchContext
    judge: VariantJudge
    shipped: HealedModel
    raised: bool = False
    """They are judged with everything raised, not with everything low."""

    @property
    def start(self) -> HealedModel:
        """Return the graph healed as it is."""
        request = self.context.request
        return HealedModel(request.graph, request.calibration, request.repairs)

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
        """Return what a plan gives and takes that is the same for all; None for what cannot be tested or priced."""
        return self.judge.priced(variant, self.context.request.needed, raised=self.raised)


def choose_gates(
    groups: Sequence[tuple[str, ...]], start: PricedFigures, measure: Measure, terms: FreeingTerms
) -> tuple[str, ...]:
    """Return the tensors whose gates to free; none where nothing is worth its latency.

    Groups come in the order of what they promise; as many as 1, 2, 4, ... are tried at once. More are freed where
    scores are better beyond chance, and leave as many times less of what is lost beyond the goal as it takes longer.
    When more are not, those behind them promise less still.
    """
    best, chosen = start, tuple[str, ...]()
    for count in doubling(len(groups)):
        tensors = tuple(name for group in groups[:count] for name in group)
        found = measure(tensors)
        if found is not None and _is_worth_it(found, best, terms):
            best, chosen = found, tensors
        elif chosen:
            break
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
