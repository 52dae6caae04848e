"""What the vendor's compiler gets wrong of a Pad is refused before, in the verdict; the rest is taken."""

from __future__ import annotations

import pytest

from dovetail.backend.registry import find_target
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.testing.networks import Network

PARTS = ("vsi:a311d", "vsi:imx8mp", "vsi:v853")


def _padded(value: float | None, reader: str = "Relu", **attributes: object) -> Graph:
    """Return a Pad by one row and column on each side; without a value it has none to fill in."""
    net = Network()
    filled = [] if value is None else [net.constant(value)]
    data, widths = net.input("x", 1, 4, 8, 8), net.constant([0, 0, 1, 1, 0, 0, 1, 1])
    padded = net.op("Pad", data, widths, *filled, shape=(1, 4, 10, 10), **attributes)
    if reader == "Relu":
        return net.graph(net.op(reader, padded))
    return net.graph(net.op(reader, padded, shape=(1, 4, 9, 9), kernel_shape=(2, 2)))


def _reason(graph: Graph, target: str, precision: Precision = Precision.U8) -> str:
    return find_target(target).verdict(graph, graph.nodes[0], precision).reason


@pytest.mark.parametrize("target", PARTS)
@pytest.mark.parametrize(
    "graph", [_padded(None), _padded(0.0), _padded(3.0, mode="reflect")], ids=["no", "0", "mirror"]
)
def test_zeros_and_mirrors_are_taken(graph: Graph, target: str) -> None:
    assert _reason(graph, target) == ""


@pytest.mark.parametrize("target", PARTS)
def test_a_value_that_storage_may_not_reach_is_refused(target: str) -> None:
    assert "fills in 1.5, which the compiler cuts off" in _reason(_padded(1.5), target)
    assert _reason(_padded(1.5), target, Precision.FP16) == ""


@pytest.mark.parametrize("target", PARTS)
@pytest.mark.parametrize("reader", ["MaxPool", "AveragePool"])
def test_a_pooling_behind_it_is_named(reader: str, target: str) -> None:
    """The compiler makes it a padding of the pooling, whose maximum does not count it."""
    assert "pooling 'n1' reads it" in _reason(_padded(0.0, reader), target)


def test_what_is_filled_in_has_to_be_known() -> None:
    net = Network()
    data, widths, value = net.input("x", 1, 4, 8, 8), net.constant([0, 0, 1, 1, 0, 0, 1, 1]), net.input("v")
    graph = net.graph(net.op("Relu", net.op("Pad", data, widths, value, shape=(1, 4, 10, 10))))
    assert "('v') is not a constant" in _reason(graph, "vsi:v853")
