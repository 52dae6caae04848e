"""Graphs survive the disk, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import BundleError
from dovetail.ir import AnyArray, DType, Graph, TensorType, graph_from_bytes, graph_to_bytes, load_graph, save_graph
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


def _graph() -> Graph:
    kinds = {"a": TensorType(DType.I16, (3,)), "b": TensorType(DType.F32, (1, 2)), "x": TensorType(DType.F32, (1,))}
    constants: dict[str, AnyArray] = {"a": np.array([1, 2, -3], np.int16), "b": np.array([[1.0, 2.0]], np.float32)}
    return Graph("g", (), ("x",), ("x",), kinds, constants)


def test_the_layout_of_a_file() -> None:
    data = graph_to_bytes(_graph())
    first, _, rest = data.partition(b"\n")
    kind, _, size = first.rpartition(b" ")
    text, payload = rest[: int(size)], rest[int(size) :]
    assert kind == b"dovetail graph 1"
    assert text.decode().splitlines() == [
        'graph "g" opset 21',
        'input "x": f32[1]',
        'constant "a": i16[3] = @0:6',
        'constant "b": f32[1, 2] = @6:8',
        'output "x"',
        "end",
    ]
    assert payload == np.array([1, 2, -3], "<i2").tobytes() + np.array([1.0, 2.0], "<f4").tobytes()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"dovetail graph 1", b"dovetail graph 2", "f.dvg: not a Dovetail graph"),
        (b"@0:6", b"@9:6", "damaged: .*outside the file or has the wrong size"),
        (b"@0:6", b"@0:4", "damaged: .*outside the file or has the wrong size"),
        (b"@6:8", b"@7:8", "damaged: .*outside the file or has the wrong size"),
        (b"@0:6", b"@0-6", "damaged: .*is not of the form @offset:bytes"),
        (b"i16[3]", b"i16[4]", "damaged: .*wrong size"),
        (b'"g"', b'"\xff"', "damaged: "),
    ],
)
def test_what_is_damaged_is_named(old: bytes, new: bytes, says: str) -> None:
    data = graph_to_bytes(_graph())
    assert data.count(old) == 1
    with pytest.raises(BundleError, match=says):
        graph_from_bytes(data.replace(old, new), "f.dvg")


def test_a_cut_file_is_named_with_its_size() -> None:
    data = graph_to_bytes(_graph())
    with pytest.raises(BundleError, match="graph file: cut short at 60 bytes"):
        graph_from_bytes(data[:60])
    text_only = data[: data.index(b"end\n") + 4]
    with pytest.raises(BundleError, match="outside the file"):
        graph_from_bytes(text_only)


def test_what_is_read_belongs_to_the_graph_alone() -> None:
    data = bytearray(graph_to_bytes(_graph()))
    graph = graph_from_bytes(bytes(data))
    assert graph.constants["a"].tolist() == [1, 2, -3]
    assert graph.constants["a"].dtype == np.int16
    assert graph.constants["a"].base is None or not graph.constants["a"].flags.writeable
