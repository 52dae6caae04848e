"""The culprits: gallop and bisect to a passing set, minimise it, then the cheapest rung for each unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from dovetail.plan.plan import Override
from dovetail.search.budget import cheapest_under_noise
from dovetail.search.candidate import Candidate
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger, Variants
from dovetail.search.proof import Prover
from dovetail.search.result import Evidence
from dovetail.search.sensitivity import measured_order
from dovetail.search.strategy import GroupTest, PassingSet, isolate, minimise, shortest_prefix
from dovetail.search.tolerance import Tolerance


def find_culprits(context: SearchContext, ledger: Ledger, tolerance: Tolerance, climbs: bool) -> Candidate | None:
    """Return a 1-minimal set of raised units that meets a tolerance; a larger one when the budget runs out.

    With prices, where nearly every unit matters, the cheapest of few sets is returned. None when the first rung cannot
    meet the tolerance, and `climbs` forbids the last one, float on the CPU.
    """
    if ledger.judge({}, tolerance).passed:
        return context.candidate({})
    context.listener.stage("culprits")
    order, length = _shortest(context, ledger, tolerance, climbs)
    if length is None:
        top = ledger.starts_at_top
        return context.candidate(context.raised(order, top=top)) if climbs or top else None
    context.listener.stage("minimise")
    passing = order[:length]
    if context.prover is not None and length >= context.policy.culprits.many:
        end = _cheaper_end(context, ledger, passing, tolerance, context.prover)
        if end is not None:
            raised = context.raised(end, top=ledger.starts_at_top, tested=False)
            return context.candidate(_lowered(context, ledger, raised, tolerance))
    raised = context.raised(_smaller(context, ledger, passing, tolerance), top=ledger.starts_at_top)
    return _certified(context, ledger, _lowered(context, ledger, raised, tolerance), tolerance)


def _variants(context: SearchContext, ledger: Ledger) -> Variants:
    return Variants(context.raised(context.order, top=ledger.starts_at_top))


def _shortest(
    context: SearchContext, ledger: Ledger, tolerance: Tolerance, climbs: bool
) -> tuple[Sequence[str], int | None]:
    """Return an order of the units, and how many of its first ones meet the tolerance."""
    trusted = context.order[: context.policy.culprits.trusted]
    length = ledger.follow(partial(shortest_prefix, trusted), _variants(context, ledger), tolerance)
    if length is not None:
        return context.order, length
    order = measured_order(context, ledger)
    length = ledger.follow(partial(shortest_prefix, order), _variants(context, ledger), tolerance)
    if length is None and climbs and not ledger.starts_at_top:
        # The first rung cannot meet this tolerance; float on the CPU can.
        ledger.starts_at_top = True
        length = ledger.follow(partial(shortest_prefix, order), _variants(context, ledger), tolerance)
    return order, length


def _smaller(context: SearchContext, ledger: Ledger, passing: Sequence[str], tolerance: Tolerance) -> Sequence[str]:
    """Return a part of a passing set that passes."""
    policy = context.policy
    if len(passing) < policy.culprits.many:
        first = int(len(passing) * policy.culprits.first_chunk)
        strategy = partial(minimise, passing, first=first, go_on=ledger.may_go_on)
    else:
        options = GroupTest(policy.culprits, policy.group_test, patient=True)
        strategy = partial(isolate, passing, options=options, go_on=ledger.may_go_on)
    return ledger.follow(strategy, _variants(context, ledger), tolerance).kept


def _cheaper_end(
    context: SearchContext, ledger: Ledger, passing: Sequence[str], tolerance: Tolerance, prover: Prover
) -> Sequence[str] | None:
    """Return the cheapest of the shortest beginning and end of the network that pass, and of what leaves least noise.

    Only where nearly every unit matters: what passes is large then whatever is chosen, and one piece has least
    borders. None for all other sets.
    """
    policy, variants = context.policy, _variants(context, ledger)

    def isolated_in(units: Sequence[str], most_clean: float = 0.0) -> PassingSet:
        options = GroupTest(policy.culprits, policy.group_test, most_clean=most_clean)
        strategy = partial(isolate, units, options=options, go_on=ledger.may_go_on)
        return ledger.follow(strategy, variants, tolerance)

    isolated = isolated_in(passing)
    if not isolated.is_crowded:
        return None
    sets: list[Sequence[str]] = [isolated.kept]
    network = tuple(context.space.units)
    for order in (network, network[::-1]):
        length = ledger.follow(partial(shortest_prefix, order), variants, tolerance)
        if length is not None and length <= policy.culprits.longest_end * len(order):
            sets.append(order[:length])
    quiet = cheapest_under_noise(context, ledger, tolerance, prover)
    sets += [quiet] if quiet is not None and len(quiet) < len(network) else []
    rungs = {unit: context.space.rung(unit, ledger.starts_at_top) for unit in network}

    def price(units: Sequence[str]) -> tuple[float, int]:
        return prover.latency_ns({unit: rungs[unit] for unit in units}), len(units)

    best = min(sets, key=price)
    if best is quiet or best is isolated.kept:
        # A few units that matter may be neighbours in an order, and what was measured may mislead: look in another.
        again = isolated_in([unit for unit in network if unit in set(best)], policy.budget.most_clean)
        return min(best, again.kept, key=price) if again.is_crowded else None
    return best


def _lowered(
    context: SearchContext, ledger: Ledger, raised: Mapping[str, Override], tolerance: Tolerance
) -> dict[str, Override]:
    """Precision before place: keep at the last rung only the units that need it, rung by rung."""
    if not ledger.starts_at_top:
        return dict(raised)
    context.listener.stage("precision before place")
    ladders, kept = context.space.ladders, dict(raised)
    for level in range(max((len(ladders[unit]) for unit in raised), default=1) - 1):
        high = [unit for unit in kept if level < len(ladders[unit]) - 1 and kept[unit].placement == ladders[unit][-1]]
        if not high:
            continue
        lower = {unit: Override(ladders[unit][level], kept[unit].reason) for unit in high}
        variants = Variants(kept, {**kept, **lower})
        if ledger.judge(variants.raised(frozenset()), tolerance).passed:
            kept = variants.raised(frozenset())
            continue
        first = int(len(high) * context.policy.culprits.first_chunk)
        strategy = partial(minimise, high, first=first, go_on=ledger.may_go_on)
        kept = variants.raised(frozenset(ledger.follow(strategy, variants, tolerance).kept))
    return kept


def _certified(
    context: SearchContext, ledger: Ledger, raised: Mapping[str, Override], tolerance: Tolerance
) -> Candidate:
    """Test every single removal from a set that passes; what can go after all goes."""
    variants = Variants(raised)
    minimal = ledger.follow(partial(minimise, tuple(raised), go_on=ledger.may_go_on), variants, tolerance)
    kept = frozenset(minimal.kept)
    evidence = tuple(
        Evidence(unit, ledger.judge(variants.raised(kept - {unit}), tolerance)) for unit, _ in minimal.removals
    )
    tested = {item.unit for item in evidence}
    stated = {
        unit: context.override(unit, item.placement, unit in tested) for unit, item in variants.raised(kept).items()
    }
    return context.candidate(stated, evidence)
