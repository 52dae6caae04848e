"""Plans written back as recipes give the same plan again."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dovetail
from dovetail.backend.target import Target
from dovetail.errors import PlanError
from dovetail.ir import Graph, parse_graph
from dovetail.plan import (
    Override,
    Plan,
    Recipe,
    Rule,
    find_units,
    make_plan,
    parse_placement,
    plan_to_recipe,
    recipe_to_toml,
)
from dovetail.plan.recipe import read_recipe
from dovetail.plan.repairs import RepairRecord

TEXT = """graph "g" opset 21
input "x": f32[1, 4, 4, 4]
"conv[1]" = Sigmoid("x") -> ("a": f32[1, 4, 4, 4]) {} origin ["conv"]
"conv" = Sigmoid("a") -> ("b": f32[1, 4, 4, 4]) {} origin ["conv"]
"*" = Exp("b") -> ("c": f32[1, 4, 4, 4]) {}
"q?" = Reshape("c", "s") -> ("d": f32[1, 64]) {}
"last" = Tanh("d") -> ("e": f32[1, 64]) {}
constant "s": i64[2] = [1, 64]
output "e"
end
"""
PLACES = [parse_placement(text) for text in ("vsi:v853@i8pc", "vsi:v853@i16", "cpu@fp32")]


def graph() -> Graph:
    """Nodes whose names are patterns, and two units of one source name."""
    lines = TEXT.splitlines()
    constant = next(line for line in lines if line.startswith("constant"))
    lines.remove(constant)
    lines.insert(2, constant)
    return parse_graph("\n".join(lines) + "\n")


def targets() -> dict[str, Target]:
    return {target.name: target for target in dovetail.known_targets()}


@given(st.lists(st.integers(0, 2), min_size=4, max_size=4), st.text(max_size=30))
@settings(deadline=None)
def test_round_trip_through_toml(choice: list[int], reason: str) -> None:
    reason = reason.encode("utf-8", "replace").decode()
    net = graph()
    overrides = {
        node: Override(PLACES[number], reason)
        for unit, number in zip(find_units(net).items, choice, strict=True)
        if number
        for node in unit.nodes
    }
    plan = Plan(net.digest, PLACES[0], overrides)
    recipe = plan_to_recipe(net, plan, targets())
    read = read_recipe(tomllib.loads(recipe_to_toml(recipe)))
    assert read == recipe
    again = make_plan(net, read, targets())
    assert again.digest == plan.digest
    for node, override in overrides.items():
        assert again.reason(node) == override.reason


def test_repairs_are_kinds_that_a_search_makes_anew() -> None:
    """Their digest is no part of what a recipe gives: plans with repairs had none."""
    net = graph()
    records = tuple(RepairRecord(kind, {}) for kind in ("dead-channels", "equalise", "equalise"))
    plan = Plan(net.digest, PLACES[0], {}, records)
    recipe = plan_to_recipe(net, plan, targets())
    assert recipe.repair == "dead-channels,equalise"
    assert read_recipe(tomllib.loads(recipe_to_toml(recipe))) == recipe
    assert make_plan(net, recipe, targets()).digest == replace(plan, repairs=()).digest


def test_a_unit_torn_apart_is_refused() -> None:
    net = graph()
    plan = Plan(net.digest, PLACES[0], {"q?": Override(PLACES[1], "half a unit")})
    with pytest.raises(PlanError, match="cannot be written as a recipe"):
        plan_to_recipe(net, plan, targets())


def test_a_recipe_keeps_fallbacks_and_operators() -> None:
    recipe = Recipe(PLACES[0], (PLACES[2],), (Rule(PLACES[1], "a*", "Conv", 'why "so"\\\x7f'),))
    assert read_recipe(tomllib.loads(recipe_to_toml(recipe))) == recipe
