"""The text form loses nothing and refuses nonsense."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import GraphError
from dovetail.ir import Graph, parse_graph, print_graph
from dovetail.testing.strategies import any_graphs


@given(any_graphs())
@settings(max_examples=150, deadline=None)
def test_text_round_trip(graph: Graph) -> None:
    read = parse_graph(print_graph(graph))
    assert read == graph
    assert read.nodes == graph.nodes
    assert dict(read.types) == dict(graph.types)


@given(any_graphs(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_damaged_line_is_a_graph_error_or_another_graph(graph: Graph, data: st.DataObject) -> None:
    text = print_graph(graph)
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.characters(codec="utf-8")) + text[at + 1 :]
    with contextlib.suppress(GraphError):
        parse_graph(damaged)


def test_text_cut_short_is_refused() -> None:
    with pytest.raises(GraphError, match="cut short"):
        parse_graph('graph "g" opset 21\ninput "x": f32[1]\noutput "x"\n')
