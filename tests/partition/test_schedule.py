"""Random placements of random graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backends.reference import run_graph
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType, read_tensors
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.partition.schedule import schedule
from dovetail.plan import Placement, Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.testing.networks import networks
from dovetail.testing.topologies import devices_of, two_branches


def _placed(graph: Graph, targets: dict[str, str]) -> QuantizedGraph:
    places = {name: Placement(target, Precision.FP32) for name, target in targets.items()}
    return QuantizedGraph(graph, Plan(graph.digest, Placement("A", Precision.FP32)), places)


@st.composite
def placed_networks(draw: st.DrawFn) -> QuantizedGraph:
    """Draw a network and a target for each of its nodes, out of two or three."""
    graph = draw(networks(most=14))
    names = draw(st.sampled_from(["AB", "ABC"]))
    return _placed(graph, {node.name: draw(st.sampled_from(names)) for node in graph.nodes})


@settings(max_examples=300, deadline=None)
@given(placed_networks())
def test_any_placement_gives_convex_parts_in_an_order_that_works(placed: QuantizedGraph) -> None:
    graph, cut = placed.graph, partition(placed)
    where = {node.name: part.index for part in cut.partitions for node in part.graph.nodes}
    assert sorted(where) == sorted(node.name for node in graph.nodes)
    assert [part.index for part in cut.partitions] == list(range(len(cut.partitions)))
    for part in cut.partitions:
        assert {placed.placements[node.name].target for node in part.graph.nodes} == {part.target}
    # A producer is never in a later part: so the parts form no cycle, and none is left and entered again.
    for node in graph.nodes:
        for tensor in read_tensors(node):
            if tensor in graph.producers:
                assert where[graph.producers[tensor].name] <= where[node.name]
    for one, other in zip(cut.partitions, cut.partitions[1:], strict=False):
        assert one.target != other.target
    _check_borders(cut, where)


def _check_borders(cut: PartitionedGraph, where: dict[str, int]) -> None:
    graph = cut.source.graph
    crossing: dict[str, set[int]] = {}
    for node in graph.nodes:
        for tensor in read_tensors(node):
            producer = graph.producers.get(tensor)
            if producer is not None and where[producer.name] != where[node.name]:
                crossing.setdefault(tensor, set()).add(where[node.name])
    assert {item.name: set(item.consumers) for item in cut.borders} == crossing
    for item in cut.borders:
        assert item.producer == where[graph.producers[item.name].name]
        assert item.kind == graph.types[item.name]
        assert list(item.consumers) == sorted(set(item.consumers))
    for part in cut.partitions:
        made = {tensor for node in part.graph.nodes for tensor in node.outputs}
        wanted = {tensor for tensor in made if tensor in crossing or tensor in graph.outputs}
        assert set(part.graph.outputs) == wanted
        assert len(part.graph.outputs) == len(wanted)
        read = {tensor for node in part.graph.nodes for tensor in read_tensors(node)}
        assert set(part.graph.constants) == read & graph.constants.keys()


@settings(max_examples=100, deadline=None)
@given(placed_networks())
def test_running_the_parts_gives_what_the_whole_gives(placed: QuantizedGraph) -> None:
    graph = placed.graph
    rng = np.random.default_rng(5)
    x = rng.normal(size=graph.types["x"].static_shape).astype(np.float32)
    values: dict[str, AnyArray] = {"x": x}
    for part in partition(placed).partitions:
        found = run_graph(part.graph, {name: values[name] for name in part.graph.inputs})
        values.update({name: found[name] for name in part.graph.outputs})
    whole = run_graph(graph, {"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(values[name], whole[name])


@settings(max_examples=60, deadline=None)
@given(networks(most=6), st.data())
def test_two_targets_get_the_fewest_partitions_there_are(graph: Graph, data: st.DataObject) -> None:
    targets = {node.name: data.draw(st.sampled_from("AB")) for node in graph.nodes}
    assert len(schedule(graph, targets)) == _fewest(graph, targets)


def _fewest(graph: Graph, targets: dict[str, str]) -> int:
    """Return the least number of runs of one target over all orders of the nodes, by trying every state once."""
    needs = {
        node.name: frozenset(graph.producers[name].name for name in read_tensors(node) if name in graph.producers)
        for node in graph.nodes
    }
    frontier: set[tuple[frozenset[str], str]] = {(frozenset(), target) for target in set(targets.values())}
    seen = set(frontier)
    for runs in range(1, len(needs) + 2):
        stack = list(frontier)
        switched: set[tuple[frozenset[str], str]] = set()
        while stack:
            done, current = stack.pop()
            if len(done) == len(needs):
                return runs
            for name, before in needs.items():
                if name not in done and before <= done:
                    state = (done | {name}, targets[name])
                    if targets[name] == current and state not in seen:
                        seen.add(state)
                        stack.append(state)
            for other in set(targets.values()) - {current}:
                switched.add((done, other))
        frontier = switched - seen
        seen |= frontier
    raise AssertionError("no order")


def test_an_empty_graph_has_no_partition() -> None:
    kind = TensorType(DType.F32, (1,))
    cut = partition(_placed(Graph("none", (), ("x",), ("x",), {"x": kind}), {}))
    assert (cut.partitions, cut.borders) == ((), ())


def test_an_output_that_is_a_constant_is_handed_out_by_the_first_partition() -> None:
    kind = TensorType(DType.F32, (1,))
    nodes = (Node("a", "Relu", ("x",), ("y",)), Node("b", "Abs", ("y",), ("z",)))
    types = dict.fromkeys("xyzk", kind)
    graph = Graph("c", nodes, ("x",), ("z", "k"), types, {"k": np.ones(1, np.float32)})
    cut = partition(_placed(graph, {"a": "A", "b": "B"}))
    assert [part.graph.outputs for part in cut.partitions] == [("y", "k"), ("z",)]
    assert [border.name for border in cut.borders] == ["y"]


def test_the_order_of_nodes_of_one_partition_is_that_of_the_graph() -> None:
    kind = TensorType(DType.F32, (1,))
    names = [f"t{index}" for index in range(20)]
    nodes = tuple(Node(f"n{i}", "Relu", ("x",), (name,)) for i, name in enumerate(names))
    graph = Graph("fan", nodes, ("x",), tuple(names), dict.fromkeys(("x", *names), kind))
    (only,) = partition(_placed(graph, {node.name: "A" for node in nodes})).partitions
    assert only.graph.nodes == nodes


@settings(max_examples=200, deadline=None)
@given(placed_networks())
def test_overlapping_parts_are_convex_and_finer(placed: QuantizedGraph) -> None:
    cut = partition(placed, overlap=True)
    where = {node.name: part.index for part in cut.partitions for node in part.graph.nodes}
    assert set(where) == {node.name for node in placed.graph.nodes}
    for node in placed.graph.nodes:
        for tensor in read_tensors(node):
            maker = placed.graph.producers.get(tensor)
            assert maker is None or where[maker.name] <= where[node.name]
    assert len(cut.partitions) >= len(partition(placed).partitions)


def test_the_other_target_need_not_wait_for_the_own_branch() -> None:
    case = two_branches()
    placed = _placed(case.graph, devices_of(case))
    assert [part.target for part in partition(placed).partitions] == ["A", "B", "A"]
    cut = partition(placed, overlap=True)
    assert [part.target for part in cut.partitions] == ["A", "A", "B", "A"]
    stem, own, other, _ = cut.partitions
    assert set(other.graph.inputs) <= set(stem.graph.outputs)
    assert set(own.graph.inputs) <= set(stem.graph.outputs)


def _groups(*edges: str) -> str:
    """Return the groups of a graph; `b1<a0,c2` reads a0 and c2, and a target is the letter's capital."""
    kind = TensorType(DType.F32, (1,))
    nodes: list[Node] = []
    for edge in edges:
        name, _, sources = edge.partition("<")
        nodes.append(Node(name, "Sum", tuple(f"t{source}" for source in sources.split(",")), (f"t{name}",)))
    made = [node.outputs[0] for node in nodes]
    graph = Graph("g", tuple(nodes), ("tx",), tuple(made), dict.fromkeys(("tx", *made), kind))
    groups = schedule(graph, {node.name: node.name[0].upper() for node in nodes})
    return " ".join("+".join(node.name for node in group) for group in groups)


def test_of_three_targets_the_one_with_the_most_changes_ahead_goes_first() -> None:
    # Were B, the first by name, run before C, it would be entered again for b1.
    assert _groups("a0<x", "b0<a0", "c0<a0", "b1<c0", "c1<b1") == "a0 c0 b0+b1 c1"
    assert _groups("a0<x", "c0<a0", "b0<a0", "c1<b0", "b1<c1") == "a0 b0 c0+c1 b1"


def test_changes_count_and_not_nodes() -> None:
    assert _groups("a0<x", "b0<a0", "b1<b0", "b2<b1", "b3<b2", "c0<a0", "b4<c0") == "a0 c0 b0+b1+b2+b3+b4"


def test_the_longest_way_counts_and_not_the_first_or_the_last() -> None:
    ways = ("c1<c0", "b1<c0", "c2<c0")
    for first, second, third in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        edges = ("a0<x", "b0<a0", "c0<a0", ways[first], ways[second], ways[third])
        assert [group.split("+")[0] for group in _groups(*edges).split()] == ["a0", "c0", "b0"]


def test_the_farthest_of_a_targets_ready_nodes_counts() -> None:
    # c0 is an end and c1 is not; b0 has one change ahead, c1 has two.
    edges = ("a0<x", "b0<a0", "d0<b0", "c0<a0", "c1<a0", "b1<c1", "d1<b1")
    assert _groups(*edges) == "a0 c0+c1 b0+b1 d0+d1"


def test_with_nothing_ahead_targets_go_by_name() -> None:
    assert _groups("a0<x", "d0<a0", "b0<a0", "c0<a0") == "a0 b0 c0 d0"


def test_the_start_with_the_fewest_groups_is_taken() -> None:
    assert _groups("a0<x", "b0<x", "a1<b0") == "b0 a0+a1"
    assert _groups("b0<x", "a0<x", "b1<a0") == "a0 b0+b1"
