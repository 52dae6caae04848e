"""Graphs survive the disk, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import BundleError
from dovetail.ir import Graph, graph_from_bytes, graph_to_bytes, load_graph, save_graph
from dovetail.testing.strategies import any_graphs, float_graphs


@given(any_graphs())
@settings(max_examples=100, deadline=None)
def test_bytes_round_trip(graph: Graph) -> None:
    data = graph_to_bytes(graph)
    assert graph_from_bytes(data) == graph
    assert graph_to_bytes(graph_from_bytes(data)) == data


@given(float_graphs(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_cut_file_is_refused(graph: Graph, data: st.DataObject) -> None:
    whole = graph_to_bytes(graph)
    has_constants = any(array.size for array in graph.constants.values())
    text_end = whole.index(b"\nend\n") + 5
    cut = data.draw(st.integers(0, (len(whole) if has_constants else text_end) - 1))
    with pytest.raises(BundleError):
        graph_from_bytes(whole[:cut])


def test_a_missing_file_is_a_bundle_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"graph\.dvg"):
        load_graph(tmp_path / "graph.dvg")


@given(graph=float_graphs())
@settings(max_examples=5, deadline=None)
def test_file_round_trip(tmp_path_factory: pytest.TempPathFactory, graph: Graph) -> None:
    path = tmp_path_factory.mktemp("graphs") / "graph.dvg"
    save_graph(graph, path)
    assert load_graph(path) == graph
