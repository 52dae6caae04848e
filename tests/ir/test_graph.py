"""Graphs as values: what is known of them, and how they are sorted and pruned."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.errors import GraphError
from dovetail.ir import DType, Graph, Node, TensorType, nodes_in_order, parse_graph, read_tensors
from dovetail.ir.graph import as_constant, prune

REAL = TensorType(DType.F32, (2,))


def _graph() -> Graph:
    return parse_graph(
        "\n".join(
            [
                'graph "g" opset 21',
                'input "x": f32["n", 3, ?]',
                'constant "k": f32[3, 1] = base64 "AACAPwAAAEAAAEBA"',
                '"a" = Mul("x", "k") -> ("ta": f32["n", 3, ?])',
                '"b" = Add("ta", "ta") -> ("tb": f32[*])',
                '"c" = Split("ta") -> ("", "tc": f32[0, 4])',
                'output "tb"',
                'output "tc"',
                'origin "ta": "first"',
                "end",
                "",
            ]
        )
    )


def _choice() -> Graph:
    """Return an If whose bodies read `t` of the graph around them."""
    body = Graph("b", (Node("i", "Abs", ("t",), ("r",)),), (), ("r",), {"t": REAL, "r": REAL}, captures=("t",))
    nodes = (
        Node("a", "Relu", ("x",), ("t",)),
        Node("c", "If", ("f",), ("y",), {"then_branch": body, "else_branch": body}),
    )
    flag = TensorType(DType.BOOL, ())
    return Graph("g", nodes, ("x", "f"), ("y",), {"x": REAL, "f": flag, "t": REAL, "y": REAL})


def test_who_makes_and_who_reads() -> None:
    graph = _graph()
    assert {name: node.name for name, node in graph.producers.items()} == {"ta": "a", "tb": "b", "tc": "c"}
    readers = {name: [node.name for node in nodes] for name, nodes in graph.consumers.items()}
    assert readers == {"x": ["a"], "k": ["a"], "ta": ["b", "c"]}
    assert graph.node("b").op == "Add"
    with pytest.raises(KeyError):
        graph.node("z")
    assert (graph.origin_of("ta"), graph.origin_of("tb")) == ("first", "tb")


def test_elements_of_one_sample() -> None:
    assert _graph().element_counts == {"x": 3, "k": 3, "ta": 3, "tb": 1, "tc": 0}


def test_a_body_reads_what_it_captures() -> None:
    graph = _choice()
    assert read_tensors(graph.node("c")) == ("f", "t", "t")
    assert [node.name for node in graph.consumers["t"]] == ["c"]
    assert read_tensors(Node("n", "Op", ("a", "", "b"), ("y",))) == ("a", "b")


def test_constants_cannot_be_changed() -> None:
    graph = _graph()
    value = graph.constant("k")
    assert value is not None
    assert graph.constant("x") is None
    with pytest.raises(ValueError, match="read-only"):
        value[0, 0] = 5
    fixed = as_constant([1, 2], np.int64)
    assert (fixed.dtype, fixed.tolist()) == (np.int64, [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        fixed[0] = 5


def test_tables_cannot_be_changed() -> None:
    types = {"x": REAL}
    graph = Graph("g", (), ("x",), ("x",), types)
    types["y"] = REAL
    assert dict(graph.types) == {"x": REAL}
    for table in (graph.types, graph.constants, graph.origins):
        with pytest.raises(TypeError):
            table["z"] = None  # type: ignore[index]


def test_equal_graphs_are_equal_and_print_shortly() -> None:
    one, other = _graph(), _graph()
    assert one == other
    assert hash(one) == hash(other)
    assert one != one.evolve(name="h")
    assert one != "g"
    assert repr(one) == "<Graph 'g': 3 nodes, 1 constants>"


def test_a_change_is_verified() -> None:
    with pytest.raises(GraphError, match="computed by no node"):
        _graph().evolve(outputs=("z",))


def test_pruning_drops_what_nothing_uses() -> None:
    graph = _graph()
    more = graph.evolve(
        types={**graph.types, "spare": REAL, "k2": TensorType(DType.F32, (1,))},
        constants={**graph.constants, "k2": np.zeros(1, np.float32)},
        origins={**graph.origins, "spare": "x"},
    )
    assert more != graph
    assert prune(more) == graph
    choice = _choice()
    assert prune(choice) == choice
    assert set(prune(choice).types) == set(choice.types)
    (body,) = {id(body): body for body in choice.node("c").bodies()}.values()
    assert isinstance(body, Graph)
    assert set(prune(body).types) == {"t", "r"}


def test_a_constant_that_is_an_output_is_used() -> None:
    graph = Graph("g", (), (), ("k",), {"k": TensorType(DType.F32, (1,))}, {"k": np.zeros(1, np.float32)})
    assert prune(graph) == graph


def _order(*edges: str, available: str = "") -> str | None:
    """Sort nodes written as `c<a,b`, which reads what a and b make and makes its own name."""
    nodes = []
    for edge in edges:
        name, _, sources = edge.partition("<")
        nodes.append(Node(name, "Op", tuple(sources.split(",")) if sources else (), (name,)))
    ordered = nodes_in_order(nodes, set(available))
    return None if ordered is None else "".join(node.name for node in ordered)


def test_sorting_keeps_the_order_where_it_can() -> None:
    assert _order("c", "b", "a") == "cba"
    assert _order("c<a", "b", "a") == "bac"
    assert _order("d<a,b", "c<a", "b", "a") == "badc"
    assert _order("c<b", "b<a", "a") == "abc"
    assert _order("b<a,a", "a") == "ab"
    assert _order("b<x", "a<b") == "ba"


def test_sorting_a_cycle_gives_nothing() -> None:
    assert _order("a<b", "b<a") is None
    assert _order("a<a") is None
    assert _order("c", "a<b", "b<a") is None
    # A tensor that is there already ties nothing.
    assert _order("a<b", "b<a", available="b") == "ab"


def test_bodies_and_several_outputs_are_sorted_too() -> None:
    first, second = _choice().nodes
    assert nodes_in_order([second, first], {"x", "f"}) == [first, second]
    split = Node("s", "Split", (), ("p", "", "q"))
    late, early = Node("l", "Op", ("q", "p"), ("l",)), Node("e", "Op", ("p",), ("e",))
    assert nodes_in_order([late, early, split], set()) == [split, late, early]
