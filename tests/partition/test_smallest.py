"""The smallest failing part of a graph, by planted failures: connected, minimal, within its budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ir import Graph
from dovetail.partition.smallest import PartReduction, ReductionBudget, connected_pieces
from dovetail.testing.networks import Network


def _ladder(length: int) -> Graph:
    """Return two chains of `length` operators that a sum joins."""
    net = Network()
    ends: list[str] = []
    for _ in range(2):
        made = net.input(f"x{len(ends)}", 1, 2)
        for index in range(length):
            made = net.op("Relu" if index % 2 else "Abs", made)
        ends.append(made)
    return net.graph(net.op("Add", *ends))


GRAPH = _ladder(9)
NAMES = [node.name for node in GRAPH.nodes]


def _names(graph: Graph) -> set[str]:
    return {node.name for node in graph.nodes}


@given(st.sets(st.sampled_from(NAMES), min_size=1, max_size=4))
def test_planted_nodes_are_found(planted: set[str]) -> None:
    search = PartReduction(GRAPH, lambda part: planted <= _names(part), ReductionBudget(1000))
    found = search.run()
    assert _names(found) == planted
    assert search.minimal
    assert search.best is found
    for node in found.nodes:
        assert set(node.inputs) <= {*found.inputs, *found.constants, *found.producers}


@given(st.sets(st.sampled_from(NAMES), min_size=1, max_size=4), st.integers(1, 12))
def test_a_budget_is_kept_and_what_was_found_stays(planted: set[str], tries: int) -> None:
    seen: list[tuple[int, int]] = []
    search = PartReduction(
        GRAPH, lambda part: planted <= _names(part), ReductionBudget(tries), lambda *told: seen.append(told)
    )
    found = search.run()
    assert planted <= _names(found)
    assert search.tries <= tries
    assert [told[0] for told in seen] == list(range(1, search.tries + 1))
    assert search.minimal or search.tries == tries


def test_a_set_of_nodes_is_tried_once() -> None:
    asked: list[frozenset[str]] = []

    def fails(part: Graph) -> bool:
        asked.append(frozenset(_names(part)))
        return NAMES[3] in asked[-1]

    PartReduction(GRAPH, fails).run()
    assert len(asked) == len(set(asked))


def test_time_is_a_budget_too() -> None:
    now = 0.0

    def fails(part: Graph) -> bool:
        nonlocal now
        now += 4.0
        return NAMES[0] in _names(part)

    search = PartReduction(GRAPH, fails, ReductionBudget(100, 10.0), clock=lambda: now)
    assert len(search.run().nodes) < len(NAMES)
    assert search.tries == 3
    assert not search.minimal
    assert search.left_s == 0.0


def test_an_interruption_keeps_the_smallest_so_far() -> None:
    def fails(part: Graph) -> bool:
        if len(part.nodes) < 4:
            raise KeyboardInterrupt
        return True

    search = PartReduction(GRAPH, fails)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert len(search.best.nodes) == 4
    assert not search.minimal


def test_pieces_share_no_tensor() -> None:
    nodes = {node.name: node for node in GRAPH.nodes}
    first, other = NAMES[:9], NAMES[9:18]
    together = connected_pieces(GRAPH, [nodes[name] for name in (*first, *other)])
    assert [[node.name for node in piece] for piece in together] == [first, other]
    assert len(connected_pieces(GRAPH, GRAPH.nodes)) == 1
    # Two that read one tensor are connected, and constants connect nothing.
    net = Network()
    x, y = net.input("x", 1, 2), net.input("y", 1, 2)
    weight = net.constant(np.ones((2, 2), np.float32), "w")
    graph = net.graph(*[net.op(op, name, weight) for op, name in (("MatMul", x), ("MatMul", x), ("MatMul", y))])
    assert [len(piece) for piece in connected_pieces(graph, graph.nodes)] == [2, 1]
