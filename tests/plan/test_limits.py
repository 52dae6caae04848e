"""Limits and groups in recipes."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from dovetail.backend.registry import find_target
from dovetail.errors import PlanError, UnsupportedPlacement
from dovetail.ir import Graph, Node
from dovetail.plan import Group, Limits, Recipe, make_plan, parse_placement, recipe_to_toml
from dovetail.plan.recipe import read_recipe
from dovetail.testing.networks import Network

TEXT = """
default = "vsi:v853@i8pc"
fallback = ["cpu@fp32"]

[limits]
forbid = ["vsi:a311d"]
partitions = 3
boundary_bytes = 65536
latency_ms = 12.5
memory_bytes = 4194304

[[group]]
node = "head/*"

[[group]]
op = "Sigmoid"
"""


def test_limits_are_read_and_written_back() -> None:
    recipe = read_recipe(tomllib.loads(TEXT))
    groups = (Group("head/*"), Group(op="Sigmoid"))
    assert recipe.limits == Limits(("vsi:a311d",), 3, 65536, 12.5e6, 4194304, groups)
    assert read_recipe(tomllib.loads(recipe_to_toml(recipe))) == recipe
    assert not read_recipe({"default": "cpu@fp32"}).limits.are_any


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"limits": {"partition": 3}}, "unknown key 'partition'"),
        ({"limits": {"partitions": 2.5}}, "'partitions' cannot be 2.5"),
        ({"limits": {"latency_ms": 0}}, "'latency_ms' cannot be 0"),
        ({"limits": {"latency_ms": float("inf")}}, "'latency_ms' cannot be inf"),
        ({"limits": {"latency_ms": float("nan")}}, "'latency_ms' cannot be nan"),
        ({"limits": {"latency_ms": "12"}}, "'latency_ms' cannot be 12"),
        ({"limits": {"partitions": 10**400}}, "'partitions' cannot be 10{39}\\."),
        ({"limits": {"partitions": 2**63}}, "'partitions' cannot be 9223372036854775808"),
        ({"limits": {"boundary_bytes": 0.5}}, "'boundary_bytes' cannot be 0.5"),
        ({"limits": {"forbid": ["cpu", 3]}}, "'forbid' is a list"),
        ({"group": ["head"]}, "group 1: it needs"),
        ({"group": [{"node": "a"}, {"op": 3}]}, "group 2: 'node' and 'op' are texts"),
        ({"limits": {"memory_bytes": -1}}, "'memory_bytes' cannot be -1"),
        ({"limits": {"memory_bytes": True}}, "'memory_bytes' cannot be True"),
        ({"limits": {"forbid": "cpu"}}, "'forbid' is a list"),
        ({"limits": []}, "'limits' is a table"),
        ({"group": {"node": "x"}}, "'group' is a list"),
        ({"group": [{}]}, "group 1: it needs"),
        ({"group": [{"node": 3}]}, "are texts"),
        ({"group": [{"name": "x"}]}, "unknown key 'name'"),
    ],
)
def test_mistakes_are_named(table: dict[str, object], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        read_recipe({"default": "cpu@fp32", **table})


def test_the_least_and_the_most() -> None:
    limits = {"partitions": 0, "boundary_bytes": 0, "memory_bytes": 2**53, "latency_ms": 1e-6}
    found = read_recipe({"default": "cpu@fp32", "limits": limits}).limits
    assert found == Limits((), 0, 0, 1.0, 2**53)
    assert found.are_any
    assert read_recipe({"default": "cpu@fp32", "limits": {"partitions": 2**62}}).limits.partitions == 2**62


@pytest.mark.parametrize("op", ["Add", "Softmax"])
def test_a_group_is_of_one_operator_and_of_names(op: str) -> None:
    node = Node("n0", op, ("x",), ("y",), origin=("head/a", "head/b"))
    assert Group().matches(node)
    assert Group("head/b", op).matches(node)
    assert Group("n?", op).matches(node)
    assert not Group(op="Conv").matches(node)
    assert not Group("head", op).matches(node)
    assert not Group("HEAD/*").matches(node)


def _graph() -> Graph:
    net = Network()
    first = net.conv(net.input("x", 1, 4, 8, 8), 4, 3)
    second = net.named("nonzero", "GridSample", first, net.uniform(1, 8, 8, 2), shape=(1, 4, 8, 8))
    return net.graph(net.conv(second, 4, 1))


LOW, CPU = parse_placement("vsi:v853@i8pc"), parse_placement("cpu@fp32")
TARGETS = {name: find_target(name) for name in ("vsi:v853", "cpu")}


def test_a_group_goes_where_all_of_it_can() -> None:
    graph = _graph()
    plan = make_plan(graph, Recipe(LOW, (CPU,), limits=Limits(groups=(Group("n*"),))), TARGETS)
    assert {plan.placement(node.name) for node in graph.nodes} == {CPU}
    assert {plan.reason(node.name) for node in graph.nodes} == {"stays with 'n0', as the recipe's group asks"}
    apart = make_plan(graph, Recipe(LOW, (CPU,)), TARGETS)
    assert apart.placement("n0") == LOW


@pytest.mark.parametrize("group", ["n0", "nonzero"])
def test_a_group_that_is_together_anyway_stays_as_it_is_with_its_reasons(group: str) -> None:
    graph = _graph()
    recipe = Recipe(LOW, (CPU,))
    grouped = make_plan(graph, replace(recipe, limits=Limits(groups=(Group(group),))), TARGETS)
    assert grouped == make_plan(graph, recipe, TARGETS)


def test_what_is_forbidden_is_no_way_out() -> None:
    with pytest.raises(PlanError, match="is forbidden"):
        make_plan(_graph(), Recipe(LOW, (CPU,), limits=Limits(forbid=("cpu",))), TARGETS)
    with pytest.raises(UnsupportedPlacement):
        make_plan(_graph(), Recipe(LOW, limits=Limits(forbid=("cpu",))), TARGETS)
    with pytest.raises(PlanError, match="group 1"):
        make_plan(_graph(), Recipe(LOW, (CPU,), limits=Limits(groups=(Group("z"),))), TARGETS)
