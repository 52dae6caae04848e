"""Demands of a toolchain on plans: where it can put nodes at all, and which of them go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.backend.target import Target
from dovetail.errors import UnsupportedPlacement
from dovetail.ir.graph import Graph
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.resolve import unit_refusal
from dovetail.plan.units import Unit, Units


@dataclass(frozen=True, slots=True)
class ToolDemands:
    """What plans must be like for a toolchain to obey them, as written in its file."""

    tool: str
    """Name of the file's format."""
    rungs: tuple[Placement, ...]
    """Where a node can go beside the base, one placement for each word of the file, cheapest first."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Nodes that have to be placed alike."""
    lacks: Mapping[str, frozenset[Placement]] = field(default_factory=dict)
    """Placements that the toolchain has not for a node."""


def joined_units(units: Units, demands: ToolDemands) -> tuple[tuple[Unit, ...], ...]:
    """Return the units in bundles that have to be placed alike, in the order of their first units."""
    bundle_of = {unit.name: [unit] for unit in units.items}
    for group in demands.groups:
        names = dict.fromkeys(units.of_node[node].name for node in group)
        first, *others = names or [""]
        for other in others:
            ours, theirs = bundle_of[first], bundle_of[other]
            if ours is not theirs:
                ours += theirs
                bundle_of.update({unit.name: ours for unit in theirs})
    place = {unit.name: number for number, unit in enumerate(units.items)}
    whole = {id(bundle): bundle for bundle in bundle_of.values()}.values()
    ordered = (tuple(sorted(bundle, key=lambda unit: place[unit.name])) for bundle in whole)
    return tuple(sorted(ordered, key=lambda bundle: place[bundle[0].name]))


def merged_unit(bundle: Sequence[Unit]) -> Unit:
    """Return the units of a bundle as one, called like the first."""
    return Unit(bundle[0].name, tuple(node for unit in bundle for node in unit.nodes))


def missing_place(
    graph: Graph, unit: Unit, placement: Placement, demands: ToolDemands, targets: Mapping[str, Target]
) -> str:
    """Return why a unit cannot be at a placement, by its target or by the toolchain; an empty text where it can."""
    for name in unit.nodes:
        if placement in demands.lacks.get(name, ()):
            return f"{demands.tool} has no {placement} for {graph.node(name).label}"
    verdict = unit_refusal(graph, unit, placement, targets)
    return "" if verdict is None else f"{placement} refuses {graph.node(verdict.node).label}: {verdict.reason}"


def demanded_plan(
    graph: Graph,
    base: Plan,
    bundles: Sequence[Sequence[Unit]],
    demands: ToolDemands,
    targets: Mapping[str, Target],
) -> Plan:
    """Return a plan that a toolchain can obey: a bundle goes where all of it can be, its own placements first.

    Raises UnsupportedPlacement for a bundle that has no such place.
    """
    overrides = dict(base.overrides)
    for bundle in bundles:
        unit = merged_unit(bundle)
        own = [base.placement(part.nodes[0]) for part in bundle]
        away = [place for place in own if place != base.default]
        if not away and not missing_place(graph, unit, base.default, demands, targets):
            continue
        sayable = (base.default, *demands.rungs)
        wanted = [place for place in dict.fromkeys((*away, *demands.rungs)) if place in sayable]
        reasons = {place: missing_place(graph, unit, place, demands, targets) for place in wanted}
        found = next((place for place, reason in reasons.items() if not reason), None)
        if found is None:
            why = "; ".join(reasons.values()) or f"{demands.tool} has no word for another place than {base.default}"
            raise UnsupportedPlacement(
                graph.node(unit.nodes[0]).label,
                base.default.target,
                base.default.precision.value,
                why,
                hint=f"{demands.tool} can say no plan that starts at {base.default}: start or raise elsewhere.",
            )
        reason = next(
            (base.reason(part.nodes[0]) for part, place in zip(bundle, own, strict=True) if place == found), ""
        )
        text = reason or f"{demands.tool} has it no other way"
        overrides.update(dict.fromkeys(unit.nodes, Override(found, text)))
    return Plan(base.graph_digest, base.default, overrides, base.repairs)
