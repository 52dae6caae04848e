"""Pools of a whole large picture become global ones, and no others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.passes import WidenPools
from dovetail.testing.running import random_feeds, relative_difference, run_graph

OPS = ("AveragePool", "MaxPool")


def pooled(
    op: str,
    sides: tuple[int, int],
    after: tuple[int, int] = (1, 1),
    batch: int | str = 1,
    attributes: Mapping[str, tuple[int, ...]] | None = None,
) -> Graph:
    """Return a graph of one pool; without attributes its window is the picture, and moves by it."""
    given_ = {"kernel_shape": sides, "strides": sides, **(attributes or {})}
    types = {"x": TensorType(DType.F32, (batch, 3, *sides)), "y": TensorType(DType.F32, (batch, 3, *after))}
    return Graph("g", (Node("pool", op, ("x",), ("y",), given_),), ("x",), ("y",), types)


@given(st.sampled_from(OPS), st.integers(1, 140), st.integers(1, 140), st.booleans())
def test_windows_of_whole_large_pictures_are_global(op: str, rows: int, columns: int, strided: bool) -> None:
    graph = pooled(op, (rows, columns), attributes={} if strided else {"strides": (1, 1)})
    found = WidenPools()(graph)
    wide = max(rows, columns) >= WidenPools.least
    assert [(node.name, node.op) for node in found.nodes] == [("pool", f"Global{op}" if wide else op)]
    feeds = random_feeds(graph)
    for before, after in zip(run_graph(graph, feeds), run_graph(found, feeds), strict=True):
        assert before.shape == after.shape
        assert relative_difference(before, after) <= 1e-5


def test_a_batch_may_be_open() -> None:
    assert WidenPools()(pooled("AveragePool", (64, 64), batch="N")).nodes[0].op == "GlobalAveragePool"


@pytest.mark.parametrize(
    ("after", "attributes"),
    [
        ((1, 2), {"kernel_shape": (96, 48), "strides": (96, 48)}),
        ((1, 1), {"kernel_shape": (95, 96)}),
        ((3, 1), {"pads": (1, 0, 1, 0), "strides": (1, 1)}),
        ((1, 1), {"pads": (1, 1, 0, 0)}),
        ((1, 1), {"kernel_shape": (48, 96), "dilations": (2, 1)}),
    ],
)
@pytest.mark.parametrize("op", OPS)
def test_other_windows_stay(op: str, after: tuple[int, int], attributes: dict[str, tuple[int, ...]]) -> None:
    graph = pooled(op, (96, 96), after, attributes=attributes)
    assert WidenPools()(graph) is graph
