"""Plans from recipes: rules, whole units, fall-backs with reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backend.registry import find_target, known_targets
from dovetail.errors import PlanError, UnsupportedPlacement
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.plan import Placement, Plan, Recipe, Rule, explain, make_plan, parse_placement
from dovetail.plan.resolve import placeable_units
from dovetail.testing.networks import Network, networks

TARGETS = {target.name: target for target in known_targets()}
V853 = parse_placement("vsi:v853@i8pc")
WIDE = parse_placement("vsi:v853@i16")
CPU = parse_placement("cpu@fp32")


def _graph() -> Graph:
    """Return Conv+Relu, Transpose, Sigmoid, TopK (which no NPU takes) and an Identity of its values."""
    net = Network()
    made = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 2))
    made = net.op("Sigmoid", net.op("Transpose", made, perm=(0, 1, 3, 2)))
    count = net.constant([2])
    net.nodes.append(Node("best", "TopK", (made, count), ("values", "places")))
    net.types["values"] = TensorType(DType.F32, (1, 2, 4, 2))
    net.types["places"] = TensorType(DType.I64, (1, 2, 4, 2))
    graph = net.graph(net.op("Abs", "values"), "places")
    names = {"n0": ("trunk/conv",), "n1": ("trunk/act",), "n2": ("trunk/swap",), "n3": ("head/gate",)}
    return graph.evolve(nodes=tuple(replace(node, origin=names.get(node.name, (node.name,))) for node in graph.nodes))


def _places(plan: Plan, graph: Graph) -> dict[str, str]:
    return {node.name: str(plan.placement(node.name)) for node in graph.nodes}


def test_a_refused_unit_goes_to_the_first_fallback_that_takes_it() -> None:
    graph = _graph()
    plan = make_plan(graph, Recipe(V853, (WIDE, CPU)), TARGETS)
    assert _places(plan, graph) == {
        "n0": "vsi:v853@i8pc",
        "n1": "vsi:v853@i8pc",
        "n2": "vsi:v853@i8pc",
        "n3": "vsi:v853@i8pc",
        "best": "cpu@fp32",
        "n5": "vsi:v853@i8pc",
    }
    assert plan.reason("best").startswith("vsi:v853@i8pc refuses node 'best' (TopK): ")
    assert plan.reason("n0") == "default"


def test_without_a_fallback_the_refusal_is_an_error_that_names_all_of_it() -> None:
    with pytest.raises(UnsupportedPlacement) as caught:
        make_plan(_graph(), Recipe(V853), TARGETS)
    error = caught.value
    assert (error.node, error.target, error.precision) == ("node 'best' (TopK)", "vsi:v853", "i8pc")
    assert "indices" in error.reason
    assert error.hint


def test_rules_move_whole_units_and_later_rules_win() -> None:
    graph = _graph()
    rules = (Rule(CPU, "trunk/*", reason="first"), Rule(WIDE, "trunk/act", reason="second"))
    plan = make_plan(graph, Recipe(V853, (CPU,), rules), TARGETS)
    assert [plan.reason(name) for name in ("n0", "n1", "n2", "n3")] == ["second"] * 3 + ["default"]
    turned = make_plan(graph, Recipe(V853, (CPU,), rules[::-1]), TARGETS)
    assert [turned.reason(name) for name in ("n0", "n1", "n2")] == ["first"] * 3


def test_a_rule_may_send_nodes_back_to_the_default() -> None:
    graph = _graph()
    rules = (Rule(CPU, "*", reason="all"), Rule(V853, "n3"))
    plan = make_plan(graph, Recipe(V853, (CPU,), rules), TARGETS)
    assert plan.placement("n3") == V853
    assert plan.placement("n0") == CPU


def test_rules_about_operators() -> None:
    graph = _graph()
    plan = make_plan(graph, Recipe(V853, (CPU,), (Rule(WIDE, op="Sigmoid"),)), TARGETS)
    assert plan.placement("n3") == WIDE
    assert plan.placement("n0") == V853


def test_a_rule_that_a_target_refuses_falls_back_with_the_reason() -> None:
    graph = _graph()
    rules = (Rule(parse_placement("vsi:v853@w8a16"), "n3"),)
    plan = make_plan(graph, Recipe(V853, (WIDE, CPU), rules), TARGETS)
    assert plan.placement("n3") == WIDE
    assert "vsi:v853@w8a16 refuses node 'n3' (Sigmoid)" in plan.reason("n3")


def test_a_rule_that_is_refused_may_fall_back_to_the_default() -> None:
    graph = _graph()
    rules = (Rule(parse_placement("vsi:v853@w8a16"), "n3"),)
    plan = make_plan(graph, Recipe(V853, (V853, CPU), rules), TARGETS)
    assert plan.placement("n3") == V853
    assert "refuses" in plan.reason("n3")


@pytest.mark.parametrize("rule", [Rule(CPU, "tail/*"), Rule(CPU, op="Gemm"), Rule(CPU, "n0", "Sigmoid")])
def test_a_rule_that_matches_nothing_is_an_error(rule: Rule) -> None:
    with pytest.raises(PlanError, match=r"rule 2 .* matches no node"):
        make_plan(_graph(), Recipe(V853, (CPU,), (Rule(CPU, "n3"), rule)), TARGETS)


@pytest.mark.parametrize("where", ["default", "fallback", "rule"])
def test_an_unknown_target_is_an_error_wherever_it_stands(where: str) -> None:
    strange = parse_placement("vsi:v583@i8")
    recipe = {
        "default": Recipe(strange),
        "fallback": Recipe(V853, (strange,)),
        "rule": Recipe(V853, (CPU,), (Rule(strange),)),
    }[where]
    with pytest.raises(PlanError, match="target 'vsi:v583' is unknown"):
        make_plan(_graph(), recipe, TARGETS)


def test_a_graph_without_nodes_has_nothing_to_place() -> None:
    net = Network()
    net.input("x", 1)
    with pytest.raises(PlanError, match="no node"):
        make_plan(net.graph("x"), Recipe(CPU), TARGETS)


def test_a_mover_that_the_default_refuses_does_not_drag_its_unit_away() -> None:
    net = Network()
    made = net.conv(net.input("x", 1, 2, 4, 4), 2)
    net.op("Reshape", made, net.constant([1, 1, 1, 1, 1, 32, 1]), shape=(1, 1, 1, 1, 1, 32, 1))
    graph = net.graph("t1")
    plan = make_plan(graph, Recipe(V853, (CPU,)), TARGETS)
    assert _places(plan, graph) == {"n0": str(V853), "n1": str(CPU)}
    assert "dimensions > 6" in plan.reason("n1")


_LOW = st.sampled_from([Precision.U8, Precision.I8, Precision.I8PC, Precision.I8DFP, Precision.I16, Precision.FP16])
_NPUS = st.sampled_from(["vsi:a311d", "vsi:imx8mp", "vsi:v853"])


@settings(max_examples=60, deadline=None)
@given(networks(), _NPUS, _LOW)
def test_a_plan_never_places_a_node_where_it_is_refused(graph: Graph, target: str, precision: Precision) -> None:
    default = Placement(target, precision)
    plan = make_plan(graph, Recipe(default, (CPU,)), TARGETS)
    plan.check(graph)
    for node in graph.nodes:
        place = plan.placement(node.name)
        assert TARGETS[place.target].verdict(graph, node, place.precision).supported
    for unit in placeable_units(graph, default, TARGETS).items:
        assert len({plan.placement(name) for name in unit.nodes}) == 1


@settings(max_examples=30, deadline=None)
@given(networks())
def test_every_refusal_has_a_reason_and_no_permission_has_one(graph: Graph) -> None:
    verdicts = explain(graph, tuple(TARGETS.values()), tuple(Precision))
    assert len(verdicts.items) == len(graph.nodes) * len(TARGETS) * len(Precision)
    for item in verdicts.items:
        assert item.supported == (item.reason == "") == (item.engine is not None), item
        assert item.reason.strip() == item.reason


def test_verdicts_are_found_by_node_and_placement() -> None:
    graph = _graph()
    verdicts = explain(graph, [find_target("vsi:v853")])
    assert verdicts.graph_digest == graph.digest
    assert verdicts.of("n0", V853).supported
    assert not verdicts.of("best", V853).supported
    assert {item.precision for item in verdicts.items} == set(find_target("vsi:v853").precisions)
    with pytest.raises(KeyError):
        verdicts.of("n0", CPU)
