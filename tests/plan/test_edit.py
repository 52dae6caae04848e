"""Placements changed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dovetail
from dovetail.errors import PlanError, UnsupportedPlacement
from dovetail.ir import Graph
from dovetail.plan import Placement, Plan
from dovetail.plan.edit import edit_plan, parse_edit
from dovetail.testing.networks import Network

NPU = dovetail.parse_placement("vsi:v853@i8pc")
TARGETS = {name: dovetail.find_target(name) for name in ("vsi:v853", "cpu")}


def network() -> Graph:
    """Return conv, relu and a sigmoid."""
    net = Network()
    graph = net.graph(net.op("Sigmoid", net.op("Relu", net.conv(net.input("x", 1, 3, 8, 8), 4))))
    names = ("stem/conv", "stem/relu", "head/sigmoid")
    nodes = (replace(node, name=name, origin=(name,)) for node, name in zip(graph.nodes, names, strict=True))
    return graph.evolve(nodes=tuple(nodes))


def edit(graph: Graph, plan: Plan, *texts: str) -> Plan:
    return edit_plan(graph, plan, [parse_edit(text, plan.default) for text in texts], TARGETS)


def test_the_whole_unit_moves_and_nothing_else() -> None:
    graph = network()
    plan = edit(graph, Plan(graph.digest, NPU), "stem/relu=i16")
    assert {name: str(item.placement) for name, item in plan.overrides.items()} == {
        "stem/conv": "vsi:v853@i16",
        "stem/relu": "vsi:v853@i16",
    }
    assert plan.reason("stem/conv") == "edited by hand"


def test_an_edit_back_to_the_default_leaves_the_plan_as_it_was() -> None:
    graph = network()
    plan = Plan(graph.digest, NPU)
    assert edit(graph, edit(graph, plan, "*=cpu"), "*=i8pc") == plan


def test_of_two_edits_the_last_holds() -> None:
    graph = network()
    plan = edit(graph, Plan(graph.digest, NPU), "*=i16", "head/*=cpu@fp32")
    assert str(plan.placement("stem/conv")) == "vsi:v853@i16"
    assert str(plan.placement("head/sigmoid")) == "cpu@fp32"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a=i16", "vsi:v853@i16"),
        ("a=cpu", "cpu@fp32"),
        ("a=b=vsi:a311d@u8", "vsi:a311d@u8"),
        ("a=w8a16", "vsi:v853@w8a16"),
    ],
)
def test_places_have_short_forms(text: str, place: str) -> None:
    assert parse_edit(text, NPU).placement == dovetail.parse_placement(place)


@pytest.mark.parametrize("text", ["a", "=i16", "a=", ""])
def test_what_is_no_edit_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="NODE=PLACE"):
        parse_edit(text, NPU)


def test_near_names_are_named() -> None:
    graph = network()
    with pytest.raises(PlanError, match="Did you mean 'stem/conv'"):
        edit(graph, Plan(graph.digest, NPU), "stem/cnov=cpu")
    with pytest.raises(PlanError, match="Did you mean 'i16'"):
        parse_edit("a=i61", NPU)


def test_what_a_target_refuses_is_refused() -> None:
    graph = network()
    with pytest.raises(UnsupportedPlacement, match="vsi:v853 cannot run it at w8a16"):
        edit(graph, Plan(graph.digest, NPU), "stem/conv=w8a16")


def test_a_plan_of_another_graph_is_refused() -> None:
    with pytest.raises(PlanError, match="was made for graph"):
        edit(network(), Plan("other", Placement("cpu", NPU.precision)), "*=cpu")
