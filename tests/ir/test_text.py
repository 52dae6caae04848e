"""The text form loses nothing and refuses nonsense."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import GraphError
from dovetail.ir import DType, Graph, TensorType, parse_graph, print_graph
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


def test_large_unsigned_integers_survive() -> None:
    kind = TensorType(DType.U64, (2,))
    values = np.array([0, 2**63 + 257], dtype=np.uint64)
    graph = Graph("g", (), (), ("c",), {"c": kind}, {"c": values})
    np.testing.assert_array_equal(parse_graph(print_graph(graph)).constants["c"], values)
    with pytest.raises(GraphError, match="line"):
        parse_graph(print_graph(graph).replace("[0, ", "[-1, "))


def test_names_of_the_source_file_are_written_and_read() -> None:
    text = 'graph "g" opset 21\ninput "x": f32[1]\noutput "x"\norigin "x": "net/x:0"\nend\n'
    graph = parse_graph(text)
    assert graph.origins == {"x": "net/x:0"}
    assert print_graph(graph) == text
