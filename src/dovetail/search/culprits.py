"""The culprits: gallop and bisect to a passing set, minimise it, then the cheapest rung for each unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from dovetail.plan.plan import Override
from dovetail.search.candidate import Candidate
from dovetail.search.context import SearchContext
from dovetail.search.crowd import Crowd
from dovetail.search.ledger import Ledger, Variants
from dovetail.search.result import Evidence
from dovetail.search.sensitivity import measured_order
from dovetail.search.strategy import GroupTest, isolate, minimise, shortest_prefix
from dovetail.search.tolerance import Tolerance


def find_culprits(context: SearchContext, ledger: Ledger, tolerance: Tolerance, climbs: bool) -> Candidate | None:
    """Return a 1-minimal set of raised units that meets a tolerance; a larger one when the budget runs out.

    With prices, where many units have to be raised, a cheap set that few tests find is returned. None when the first
    rung cannot meet the tolerance, and `climbs` forbids the last one, float on the CPU.
    """
    if ledger.judge({}, tolerance).passed:
        return context.candidate({})
    context.listener.stage("culprits")
    passing = _short(context, ledger, tolerance, context.order[: context.policy.culprits.trusted])
    if passing is None and not _reaches(context, ledger, tolerance, climbs):
        top = ledger.starts_at_top
        return context.candidate(context.raised(context.order, top=top)) if climbs or top else None
    if passing is None:
        passing = _measured(context, ledger, tolerance)
    if context.prover is not None and len(passing) >= context.policy.culprits.many:
        context.listener.stage("many culprits")
        found = Crowd(context, ledger, tolerance, context.prover).cheapest()
        if found.is_crowded:
            raised = context.raised(found.kept, top=ledger.starts_at_top, tested=False)
            return context.candidate(_lowered(context, ledger, raised, tolerance))
        passing = found.kept
    context.listener.stage("minimise")
    raised = context.raised(_smaller(context, ledger, passing, tolerance), top=ledger.starts_at_top)
    return _certified(context, ledger, _lowered(context, ledger, raised, tolerance), tolerance)


def _variants(context: SearchContext, ledger: Ledger) -> Variants:
    return Variants(context.raised(context.order, top=ledger.starts_at_top))


def _short(
    context: SearchContext, ledger: Ledger, tolerance: Tolerance, order: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the shortest beginning of an order that meets the tolerance, or None."""
    length = ledger.follow(partial(shortest_prefix, order), _variants(context, ledger), tolerance)
    return None if length is None else tuple(order[:length])


def _reaches(context: SearchContext, ledger: Ledger, tolerance: Tolerance, climbs: bool) -> bool:
    """Tell whether everything raised meets the tolerance; the last rung is asked where the first one does not.

    Nothing that is raised is enough where everything is not: no beginning of an order has to be tested then.
    """
    if ledger.judge(context.raised(context.order, top=ledger.starts_at_top), tolerance).passed:
        return True
    if not climbs or ledger.starts_at_top:
        return False
    # The first rung cannot meet this tolerance; float on the CPU can.
    ledger.starts_at_top = True
    return ledger.judge(context.raised(context.order, top=True), tolerance).passed


def _measured(context: SearchContext, ledger: Ledger, tolerance: Tolerance) -> tuple[str, ...]:
    """Return units that meet the tolerance by what was measured of each: few, or where there are prices all of them."""
    order = tuple(measured_order(context, ledger))
    if context.prover is None:
        return _short(context, ledger, tolerance, order) or order
    # No test is left out among few: where harm does not add up, fewer may pass where more do not.
    return _short(context, ledger, tolerance, order[: context.policy.culprits.many - 1]) or order


def _smaller(context: SearchContext, ledger: Ledger, passing: Sequence[str], tolerance: Tolerance) -> Sequence[str]:
    """Return a part of a passing set that passes."""
    policy = context.policy
    if len(passing) < policy.culprits.many:
        first = int(len(passing) * policy.culprits.first_chunk)
        strategy = partial(minimise, passing, first=first, go_on=ledger.may_go_on)
    else:
        options = GroupTest(policy.culprits, policy.group_test)
        strategy = partial(isolate, passing, options=options, go_on=ledger.may_go_on)
    return ledger.follow(strategy, _variants(context, ledger), tolerance).kept


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
