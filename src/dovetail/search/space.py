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
from dovetail.plan.limits import Limits
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.recipe import Recipe
from dovetail.plan.repairs import RepairRecord
from dovetail.plan.resolve import make_plan, placeable_units, unit_refusal
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


def make_space(
    graph: Graph,
    low: Placement,
    ladder: Sequence[Placement],
    wishes: Recipe | None = None,
    repairs: tuple[RepairRecord, ...] = (),
) -> Space:
    """Return the search space for a graph; raise SearchError when nothing can run at the low placement.

    The rules of `wishes` pin units: those stay where they say. Its forbidden targets are no rungs. `repairs` are
    what the graph went through.
    """
    rules, limits = ((), Limits()) if wishes is None else (wishes.rules, wishes.limits)
    rungs = tuple(rung for rung in dict.fromkeys((*ladder, FLOAT)) if rung.target not in limits.forbid)
    named = (low, *rungs, *(rule.placement for rule in rules), FLOAT)
    targets: dict[str, Target] = {item.target: find_target(item.target) for item in named}
    base = replace(make_plan(graph, Recipe(low, rungs, rules, limits), targets), repairs=repairs)
    pinned = {node.name for node in graph.nodes if any(rule.matches(node) for rule in rules)}
    units = {
        unit.name: unit
        for unit in placeable_units(graph, low, targets).items
        if base.placement(unit.nodes[0]) == low and not pinned.intersection(unit.nodes)
    }
    if not units:
        raise SearchError(f"no node of '{graph.name}' can run at {low}.", hint="'dovetail explain' says why.")
    ladders = {
        name: tuple(rung for rung in rungs if rung != low and unit_refusal(graph, unit, rung, targets) is None)
        for name, unit in units.items()
    }
    able = {name: unit for name, unit in units.items() if ladders[name]}
    if not able:
        raise SearchError(
            f"no unit of '{graph.name}' that runs at {low} can go anywhere else.", hint="Forbid less, or pin less."
        )
    return Space(graph, low, base, able, ladders)
