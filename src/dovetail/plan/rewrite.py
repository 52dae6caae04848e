"""Write a plan back as a recipe that a person can edit."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from dataclasses import replace

from dovetail.backend.target import Target
from dovetail.errors import PlanError
from dovetail.ir.graph import Graph
from dovetail.plan.limits import Limits
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.recipe import Recipe, Rule
from dovetail.plan.resolve import make_plan, placeable_units

_PASSES = 3


def plan_to_recipe(graph: Graph, plan: Plan, targets: Mapping[str, Target]) -> Recipe:
    """Return the recipe from which `make_plan` gives this plan again: one rule for each unit away from the default.

    A rule also matches source names, which two units may share: later rules then put the others back. Of repairs it
    says the kinds, which a search then makes anew.
    Raises PlanError for a plan that no recipe gives, as when it tears a unit apart.
    """
    plan.check(graph)
    units = placeable_units(graph, plan.default, targets).items
    rules = [_rule(unit.nodes[0], plan) for unit in units if plan.placement(unit.nodes[0]) != plan.default]
    for _ in range(_PASSES):
        recipe = Recipe(plan.default, (), tuple(rules), repair=",".join(dict.fromkeys(r.kind for r in plan.repairs)))
        again = make_plan(graph, recipe, targets)
        wrong = [unit.nodes[0] for unit in units if again.placement(unit.nodes[0]) != plan.placement(unit.nodes[0])]
        if not wrong:
            break
        rules += [_rule(node, plan) for node in wrong]
    if again.digest != replace(plan, repairs=()).digest:
        raise PlanError(
            "the plan cannot be written as a recipe: it places nodes of one unit apart, or names are ambiguous.",
            hint="Use plan.json instead.",
        )
    return recipe


def recipe_to_toml(recipe: Recipe) -> str:
    """Return a recipe as TOML text."""
    lines = [f"default = {_quoted(str(recipe.default))}"]
    if recipe.repair:
        lines.append(f"repair = {_quoted(recipe.repair)}")
    if recipe.fallback:
        lines.append(f"fallback = [{', '.join(_quoted(str(place)) for place in recipe.fallback)}]")
    for rule in recipe.rules:
        lines += ["", "[[rule]]", f"node = {_quoted(rule.node)}"]
        if rule.op is not None:
            lines.append(f"op = {_quoted(rule.op)}")
        lines += [f"place = {_quoted(str(rule.placement))}", f"reason = {_quoted(rule.reason)}"]
    lines += _limit_lines(recipe.limits)
    return "\n".join(lines) + "\n"


def _limit_lines(limits: Limits) -> list[str]:
    lines: list[str] = []
    figures = {
        "partitions": limits.partitions,
        "boundary_bytes": limits.boundary_bytes,
        "latency_ms": None if limits.latency_ns is None else limits.latency_ns / 1e6,
        "memory_bytes": limits.memory_bytes,
    }
    stated = [f"{name} = {value}" for name, value in figures.items() if value is not None]
    if limits.forbid or stated:
        lines += ["", "[limits]", f"forbid = [{', '.join(map(_quoted, limits.forbid))}]", *stated]
    for group in limits.groups:
        lines += ["", "[[group]]", f"node = {_quoted(group.node)}"]
        lines += [] if group.op is None else [f"op = {_quoted(group.op)}"]
    return lines


def _rule(node: str, plan: Plan) -> Rule:
    placement: Placement = plan.placement(node)
    return Rule(placement, node=glob.escape(node), reason=plan.reason(node))


def _quoted(text: str) -> str:
    """Quote as a TOML basic string: JSON's escapes are TOML's, but for DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
