"""The search space: units, and the placements that each can be raised to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dovetail.backend.registry import find_target
from dovetail.backend.target import Target
from dovetail.errors import SearchError
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.demands import ToolDemands, demanded_plan, joined_units, merged_unit, missing_place
from dovetail.plan.limits import Limits
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.recipe import Recipe
from dovetail.plan.repairs import RepairRecord
from dovetail.plan.resolve import make_plan, placeable_units
from dovetail.plan.units import Unit

FLOAT = Placement(HOST, Precision.FP32)


@dataclass(frozen=True)
class Space:
    """The plan at low precision, the units that can be raised, and their ladders.

    `base` places everything low, but for what the target refuses. A ladder lists the placements above the low one
    that take the whole unit, cheapest first; it always ends with the CPU in float.
    """

    graph: Graph
    low: Placement
    base: Plan
    units: Mapping[str, Unit]
    ladders: Mapping[str, tuple[Placement, ...]]
    bundles: tuple[tuple[str, ...], ...] = ()
    """Units of the graph that a toolchain can only place alike: they are one unit here, called like the first."""

    def plan(self, raised: Mapping[str, Override]) -> Plan:
        """Return the base plan with some units raised."""
        overrides = dict(self.base.overrides)
        for name, override in raised.items():
            overrides.update(dict.fromkeys(self.units[name].nodes, override))
        return replace(self.base, overrides=overrides)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Return the names of the targets that a plan of this space may place nodes on."""
        rungs = {rung.target for ladder in self.ladders.values() for rung in ladder}
        return tuple(sorted({HOST, self.low.target, *self.base.targets, *rungs}))

    @cached_property
    def bundle_of(self) -> Mapping[str, str]:
        """Map units of the graph to the ones here that they are part of, where these have another name."""
        return {part: bundle[0] for bundle in self.bundles for part in bundle[1:]}

    def parts(self, unit: str) -> tuple[str, ...]:
        """Return the units of the graph that a unit here is made of."""
        return self._parts.get(unit, (unit,))

    @cached_property
    def _parts(self) -> Mapping[str, tuple[str, ...]]:
        return {bundle[0]: bundle for bundle in self.bundles}

    def rung(self, unit: str, highest: bool) -> Placement:
        """Return the first placement above low, or the last one."""
        return self.ladders[unit][-1 if highest else 0]

    @cached_property
    def float_plan(self) -> Plan:
        """Return the plan that runs everything on the CPU in float."""
        return Plan(self.graph.digest, FLOAT, repairs=self.base.repairs)

    @cached_property
    def low_on_cpu(self) -> Plan | None:
        """Return the plan that runs everything on the CPU at the low precision, or None when the CPU has none."""
        target = find_target(HOST)
        if self.low.precision not in target.precisions or self.low.target == HOST:
            return None
        recipe = Recipe(Placement(HOST, self.low.precision), (FLOAT,))
        return replace(make_plan(self.graph, recipe, {HOST: target}), repairs=self.base.repairs)


@dataclass(frozen=True, slots=True)
class SpaceOptions:
    """What a space is beside the wishes of a person."""

    repairs: tuple[RepairRecord, ...] = ()
    """What the graph went through."""
    demands: ToolDemands | None = None
    """What a toolchain can obey; its rungs take the place of the ladder."""


_PLAIN = SpaceOptions()


def make_space(
    graph: Graph,
    low: Placement,
    ladder: Sequence[Placement],
    wishes: Recipe | None = None,
    options: SpaceOptions = _PLAIN,
) -> Space:
    """Return the search space for a graph; raise SearchError when nothing can run at the low placement.

    The rules of `wishes` pin units: those stay where they say. Its forbidden targets are no rungs.
    """
    demands = options.demands
    rules, limits = ((), Limits()) if wishes is None else (wishes.rules, wishes.limits)
    known = (*ladder, FLOAT) if demands is None else demands.rungs
    rungs = tuple(rung for rung in dict.fromkeys(known) if rung.target not in limits.forbid)
    named = (low, *rungs, *(rule.placement for rule in rules), FLOAT)
    targets: dict[str, Target] = {item.target: find_target(item.target) for item in named}
    fallback = rungs if demands is None else (*rungs, FLOAT)
    base = replace(make_plan(graph, Recipe(low, fallback, rules, limits), targets), repairs=options.repairs)
    found = placeable_units(graph, low, targets)
    bundles: tuple[tuple[Unit, ...], ...] = tuple((unit,) for unit in found.items)
    if demands is not None:
        bundles = joined_units(found, demands)
        base = demanded_plan(graph, base, bundles, demands, targets)
    pinned = {node.name for node in graph.nodes if any(rule.matches(node) for rule in rules)}
    joined = [(bundle, merged_unit(bundle)) for bundle in bundles]
    free = [
        (bundle, unit)
        for bundle, unit in joined
        if base.placement(unit.nodes[0]) == low and not pinned.intersection(unit.nodes)
    ]
    if not free:
        raise SearchError(f"no node of '{graph.name}' can run at {low}.", hint="'dovetail explain' says why.")
    reach = demands or ToolDemands("", rungs)
    ladders = {
        unit.name: tuple(rung for rung in rungs if rung != low and not missing_place(graph, unit, rung, reach, targets))
        for _, unit in free
    }
    able = {unit.name: unit for _, unit in free if ladders[unit.name]}
    if not able:
        raise SearchError(
            f"no unit of '{graph.name}' that runs at {low} can go anywhere else.", hint="Forbid less, or pin less."
        )
    many = tuple(tuple(part.name for part in bundle) for bundle, unit in free if len(bundle) > 1 and unit.name in able)
    return Space(graph, low, base, able, {name: ladders[name] for name in able}, many)
