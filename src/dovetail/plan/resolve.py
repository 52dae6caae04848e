"""Make a plan from a recipe: rules first, then fallbacks for what a target refuses."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.backend.target import Target, TargetVerdict
from dovetail.errors import PlanError, UnsupportedPlacement
from dovetail.ir.graph import Graph
from dovetail.plan.limits import Limits
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.recipe import Recipe, Rule
from dovetail.plan.units import Unit, Units, find_units


def make_plan(graph: Graph, recipe: Recipe, targets: Mapping[str, Target]) -> Plan:
    """Return the plan that a recipe asks for; whole units move together.

    A unit that its placement refuses goes to the first fallback that takes it, with the refusal as the reason.
    Raises PlanError when a rule matches nothing, UnsupportedPlacement when no placement takes a unit.
    """
    _check_recipe(graph, recipe, targets)
    units = placeable_units(graph, recipe.default, targets)
    ruled = _apply_rules(graph, recipe, units)
    overrides: dict[str, Override] = {}
    for unit in units.items:
        override = ruled.get(unit.name)
        first = recipe.default if override is None else override.placement
        refused = unit_refusal(graph, unit, first, targets)
        if refused is not None:
            override = _fall_back(graph, unit, (first, *recipe.fallback), refused, targets)
        # A rule that was refused stays on record, even where its unit falls back to the default.
        if override is not None and (refused is not None or override.placement != recipe.default):
            overrides.update(dict.fromkeys(unit.nodes, override))
    for group in group_units(graph, recipe.limits, units):
        overrides.update(_together(graph, recipe, group, overrides, targets))
    return Plan(graph.digest, recipe.default, overrides)


def group_units(graph: Graph, limits: Limits, units: Units) -> list[list[Unit]]:
    """Return the units of every group of a recipe; raise PlanError when a group matches nothing."""
    groups: list[list[Unit]] = []
    for number, group in enumerate(limits.groups, 1):
        names = dict.fromkeys(units.of_node[node.name].name for node in graph.nodes if group.matches(node))
        if not names:
            raise PlanError(
                f"recipe: group {number} (node '{group.node}') matches no node of '{graph.name}'.",
                hint="Run 'dovetail inspect' to see the names.",
            )
        groups.append([units.by_name[name] for name in names])
    return groups


def _together(
    graph: Graph,
    recipe: Recipe,
    group: list[Unit],
    overrides: Mapping[str, Override],
    targets: Mapping[str, Target],
) -> dict[str, Override]:
    """Return overrides that bring a group to one placement: the first of its own, then of the fallbacks, that fits."""
    own = [overrides[unit.name].placement if unit.name in overrides else recipe.default for unit in group]
    if len(set(own)) == 1:
        return {}
    for placement in dict.fromkeys((*own, *recipe.fallback)):
        if all(unit_refusal(graph, unit, placement, targets) is None for unit in group):
            override = Override(placement, f"stays with '{group[0].name}', as the recipe's group asks")
            return dict.fromkeys((node for unit in group for node in unit.nodes), override)
    raise PlanError(
        f"recipe: the group of '{group[0].name}' has no placement that takes all of it.",
        hint="Add a fallback such as cpu@fp32.",
    )


def placeable_units(graph: Graph, default: Placement, targets: Mapping[str, Target]) -> Units:
    """Return the units of a graph, where a refused pass-through node stays apart from the unit before it."""
    target = targets[default.target]
    return find_units(graph, lambda node: target.verdict(graph, node, default.precision).supported)


def unit_refusal(graph: Graph, unit: Unit, placement: Placement, targets: Mapping[str, Target]) -> TargetVerdict | None:
    """Return the verdict on the first node of a unit that a placement refuses; None when it takes all."""
    target = targets[placement.target]
    for name in unit.nodes:
        node = graph.node(name)
        verdict = target.verdict(graph, node, placement.precision)
        if not verdict.supported:
            return verdict
    return None


def _fall_back(
    graph: Graph,
    unit: Unit,
    placements: tuple[Placement, ...],
    refused: TargetVerdict,
    targets: Mapping[str, Target],
) -> Override:
    node, reason = graph.node(refused.node), refused.reason
    for placement in placements[1:]:
        if unit_refusal(graph, unit, placement, targets) is None:
            return Override(placement, f"{placements[0]} refuses {node.label}: {reason}")
    raise UnsupportedPlacement(
        node.label,
        placements[0].target,
        placements[0].precision.value,
        reason,
        hint="Add a fallback such as cpu@fp32 to the recipe (dovetail explain shows who takes it).",
    )


def _check_bodies(graph: Graph, number: int, rule: Rule) -> None:
    """Raise PlanError when a rule means a node inside a body: state and control flow have one home."""
    for node in graph.nodes:
        for body in (item for item in node.bodies() if isinstance(item, Graph)):
            inner = next((one for one in body.nodes if rule.matches(one)), None)
            if inner is not None:
                raise PlanError(
                    f"recipe: rule {number} would cut {inner.label} out of {node.label}: what a loop or a branch "
                    "holds, and the state that it carries, stays on one device.",
                    hint=f"Place '{node.name}' as a whole.",
                )
            _check_bodies(body, number, rule)


def _apply_rules(graph: Graph, recipe: Recipe, units: Units) -> dict[str, Override]:
    ruled: dict[str, Override] = {}
    for number, rule in enumerate(recipe.rules, 1):
        matched = {units.of_node[node.name].name for node in graph.nodes if rule.matches(node)}
        if not matched:
            _check_bodies(graph, number, rule)
            what = f"node '{rule.node}'" + (f", op {rule.op}" if rule.op else "")
            raise PlanError(
                f"recipe: rule {number} ({what}) matches no node of '{graph.name}'.",
                hint="Run 'dovetail inspect' to see the names.",
            )
        ruled.update(dict.fromkeys(matched, Override(rule.placement, rule.reason)))
    return ruled


def _check_recipe(graph: Graph, recipe: Recipe, targets: Mapping[str, Target]) -> None:
    for placement in (recipe.default, *recipe.fallback, *(rule.placement for rule in recipe.rules)):
        if placement.target not in targets:
            raise PlanError(f"recipe: target '{placement.target}' is unknown.", hint=f"Known: {', '.join(targets)}.")
        if placement.target in recipe.limits.forbid:
            raise PlanError(
                f"recipe: {placement} is asked for, and target '{placement.target}' is forbidden.",
                hint="Strike one of them out.",
            )
    if not graph.nodes:
        raise PlanError(f"graph '{graph.name}' has no node to place.")
