"""Units: what is placed together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from dovetail.ir import DType, Graph, Node, TensorType, read_tensors
from dovetail.plan import find_units
from dovetail.testing.networks import Network, networks


def _convex(graph: Graph, members: frozenset[str]) -> bool:
    """Tell whether no path leaves the members and comes back, by walking every path."""
    outside_reached: set[str] = set()
    for node in graph.nodes:
        sources = {graph.producers[name].name for name in read_tensors(node) if name in graph.producers}
        if node.name in members:
            if sources & outside_reached:
                return False
        elif sources & (members | outside_reached):
            outside_reached.add(node.name)
    return True


@settings(max_examples=150, deadline=None)
@given(networks(most=14))
def test_units_of_any_network_cover_every_node_once_and_are_convex(graph: Graph) -> None:
    units = find_units(graph)
    named = [name for unit in units.items for name in unit.nodes]
    assert sorted(named) == sorted(node.name for node in graph.nodes)
    assert len(units.of_node) == len(graph.nodes)
    for unit in units.items:
        assert unit.name == unit.nodes[0]
        assert _convex(graph, frozenset(unit.nodes)), unit


@settings(max_examples=100, deadline=None)
@given(networks(most=14))
def test_units_as_a_whole_form_no_cycle(graph: Graph) -> None:
    units = find_units(graph)
    follows: dict[str, set[str]] = {unit.name: set() for unit in units.items}
    for node in graph.nodes:
        for tensor in read_tensors(node):
            if tensor in graph.producers:
                source = units.of_node[graph.producers[tensor].name].name
                if source != units.of_node[node.name].name:
                    follows[units.of_node[node.name].name].add(source)
    left = dict(follows)
    while left:
        free = [name for name, needs in left.items() if not needs & left.keys()]
        assert free, left
        for name in free:
            del left[name]


@settings(max_examples=60, deadline=None)
@given(networks(most=10))
def test_nothing_joins_but_clamps_when_movers_are_refused(graph: Graph) -> None:
    for unit in find_units(graph, lambda node: False).items:
        assert all(graph.node(name).op in ("Relu", "Clip") for name in unit.nodes[1:])


def _sizes(net: Network, *outputs: str) -> list[int]:
    return [len(unit.nodes) for unit in find_units(net.graph(*outputs)).items]


def _net() -> tuple[Network, str]:
    net = Network()
    return net, net.conv(net.input("x", 1, 2, 4, 4), 2)


def test_a_clamp_joins_its_host() -> None:
    net, made = _net()
    assert _sizes(net, net.op("Relu", made)) == [2]


def test_a_clamp_stays_apart_when_something_else_reads_what_it_clamps() -> None:
    net, made = _net()
    other = net.op("Sigmoid", made)
    assert _sizes(net, net.op("Relu", made), other) == [1, 1, 1]


def test_a_clamp_stays_apart_when_what_it_clamps_is_an_output() -> None:
    net, made = _net()
    assert _sizes(net, net.op("Relu", made), made) == [1, 1]


def test_a_clip_stays_apart_when_what_it_clamps_is_an_output() -> None:
    net, made = _net()
    low, high = net.constant(0.0), net.constant(6.0)
    assert _sizes(net, net.op("Clip", made, low, high)) == [2]
    assert _sizes(net, "t1", made) == [1, 1]
    assert _sizes(net, "t1", high) == [2]


def test_clips_may_share_their_bounds() -> None:
    net, made = _net()
    low, high = net.constant(0.0), net.constant(6.0)
    other = net.conv("x", 2)
    assert _sizes(net, net.op("Clip", made, low, high), net.op("Clip", other, low, high)) == [2, 2]


def test_a_clip_without_bounds_joins_its_host() -> None:
    net, made = _net()
    assert _sizes(net, net.op("Clip", made, "", net.constant(6.0))) == [2]


def test_a_strangers_clamp_or_host_stays_apart() -> None:
    for strange in (0, 1):
        net, made = _net()
        net.op("Relu", made)
        net.nodes[strange] = replace(net.nodes[strange], domain="my.own")
        assert _sizes(net, "t1") == [1, 1]


def test_a_clamp_that_reads_its_host_twice_joins_it() -> None:
    net, made = _net()
    assert _sizes(net, net.op("Add", made, made)) == [1, 1]
    assert _sizes(net, net.op("Relu", "t1")) == [1, 2]


def test_a_clamp_stays_apart_when_its_bounds_are_computed() -> None:
    net, made = _net()
    low = net.op("Sigmoid", net.input("low"), shape=())
    assert _sizes(net, net.op("Clip", made, low)) == [1, 1, 1]


def test_a_clamp_with_a_body_that_reads_its_input_stays_apart() -> None:
    net, made = _net()
    net.op("Relu", made)
    captured = _body(made, net)
    flag = net.constant(np.array(True))
    net.nodes.append(Node("choose", "If", (flag,), ("y",), {"then_branch": captured, "else_branch": captured}))
    net.types["y"] = net.types[made]
    assert len(find_units(net.graph("t1", "y")).items) == 3


def _body(captured: str, net: Network) -> Graph:
    kind = net.types[captured]
    types = {captured: kind, "r": kind}
    return Graph("body", (Node("inner", "Abs", (captured,), ("r",)),), (), ("r",), types, captures=(captured,))


@pytest.mark.parametrize("op", ["Sigmoid", "MaxPool", "Concat"])
def test_a_clamp_stays_apart_from_what_cannot_clamp(op: str) -> None:
    net = Network()
    x = net.input("x", 1, 2, 4, 4)
    if op == "MaxPool":
        made = net.op(op, x, kernel_shape=(1, 1))
    elif op == "Concat":
        made = net.op(op, x, axis=1)
    else:
        made = net.op(op, x)
    assert _sizes(net, net.op("Relu", made)) == [1, 1]


def test_the_second_of_two_clamps_stays_apart() -> None:
    net, made = _net()
    assert _sizes(net, net.op("Clip", net.op("Relu", made), net.constant(0.0), net.constant(6.0))) == [2, 1]


@pytest.mark.parametrize(
    ("value", "mode", "joins"),
    [(None, "constant", True), (0.0, "constant", True), (1.0, "constant", False), (1.0, "edge", True)],
)
def test_padding_joins_when_it_adds_no_value_of_its_own(value: float | None, mode: str, joins: bool) -> None:
    net, made = _net()
    extra = () if value is None else (net.constant(value),)
    pads = net.constant([0, 0, 1, 1, 0, 0, 1, 1])
    padded = net.op("Pad", made, pads, *extra, shape=(1, 2, 6, 6), mode=mode)
    assert _sizes(net, padded) == ([2] if joins else [1, 1])


@pytest.mark.parametrize(("mode", "joins"), [("nearest", True), ("linear", False), ("cubic", False)])
def test_resizing_joins_when_it_repeats_values(mode: str, joins: bool) -> None:
    net, made = _net()
    scales = net.constant([1.0, 1.0, 2.0, 2.0])
    made = net.op("Resize", made, "", scales, shape=(1, 2, 8, 8), mode=mode)
    assert _sizes(net, made) == ([2] if joins else [1, 1])


def test_resizing_to_a_computed_size_stays_apart() -> None:
    net, made = _net()
    scales = net.op("Sigmoid", net.input("s", 4))
    assert _sizes(net, net.op("Resize", made, "", scales, shape=(1, 2, "h", "w"))) == [1, 1, 1]


def test_a_mover_of_a_graph_input_is_a_unit_of_its_own() -> None:
    net = Network()
    assert _sizes(net, net.op("Transpose", net.input("x", 1, 2, 4, 4), perm=(0, 1, 3, 2))) == [1]


def test_movers_of_one_tensor_all_join_and_so_do_chains() -> None:
    net, made = _net()
    left = net.op("Transpose", made, perm=(0, 1, 3, 2))
    right = net.op("Flatten", made, shape=(1, 32))
    assert _sizes(net, net.op("MaxPool", left, kernel_shape=(1, 1)), right) == [4]


def test_a_gather_with_computed_indices_stays_apart() -> None:
    net, made = _net()
    flat = net.op("Flatten", made, shape=(1, 32))
    best = "i"
    net.nodes.append(Node("argmax", "ArgMax", (flat,), (best,), {"axis": 1}))
    net.types[best] = TensorType(DType.I64, (1, 1))
    units = find_units(net.graph(net.op("GatherElements", flat, best, shape=(1, 1), axis=1)))
    assert [unit.nodes for unit in units.items] == [("n0", "n1"), ("argmax",), ("n3",)]


def test_values_that_are_not_reals_do_not_tie_units() -> None:
    net, made = _net()
    net.nodes.append(Node("shape", "Shape", (made,), ("s",)))
    net.types["s"] = TensorType(DType.I64, (4,))
    net.nodes.append(Node("slice", "Identity", ("s",), ("z",)))
    net.types["z"] = TensorType(DType.I64, (4,))
    assert _sizes(net, "z", made) == [1, 1, 1]
