"""Bytes, traffic and elements of steps, against counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.cost.sizes import Sizer, Traffic, constant_bytes, element_count, stored_bytes, traffic, work_elements
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.testing.networks import Network

FP32, FP16, I8PC, I16, I8 = Precision.FP32, Precision.FP16, Precision.I8PC, Precision.I16, Precision.I8
PIXELS = 8 * 8


def _conv_relu() -> Graph:
    """Return a 3x3 convolution of 4 into 6 channels with bias, and its clamp."""
    net = Network()
    return net.graph(net.op("Relu", net.conv(net.input("x", 1, 4, 8, 8), 6, 3)))


def _nodes(graph: Graph, *names: str) -> list[Node]:
    return [graph.node(name) for name in names]


def test_elements_are_those_of_one_sample() -> None:
    net = Network()
    graph = net.graph(net.op("Relu", net.input("x", "n", 4, 8, 8)), net.op("Relu", net.input("u", 2, 3, "w")))
    assert element_count(graph, "x") == 4 * PIXELS
    assert element_count(graph, "t1") == 2 * 3


@pytest.mark.parametrize(("precision", "width"), [(FP32, 4), (FP16, 2), (Precision.BF16, 2), (I8PC, 1), (I16, 2)])
def test_reals_are_stored_as_the_precision_says_and_the_rest_as_it_is(precision: Precision, width: int) -> None:
    net = Network()
    net.input("x", 3)
    net.types["i"] = TensorType(DType.I64, (5,))
    net.inputs.append("i")
    graph = net.graph(net.op("Relu", "x"))
    assert stored_bytes(graph, "x", precision) == 3 * width
    assert stored_bytes(graph, "i", precision) == 5 * 8


@pytest.mark.parametrize(
    ("precision", "weight", "bias"), [(FP32, 4, 4), (FP16, 2, 2), (I8PC, 1, 4), (I16, 2, 8), (Precision.W8A16, 1, 8)]
)
def test_weights_and_biases_have_widths_of_their_own(precision: Precision, weight: int, bias: int) -> None:
    graph = _conv_relu()
    assert constant_bytes(graph, graph.node("n0"), precision) == 6 * 4 * 9 * weight + 6 * bias
    assert constant_bytes(graph, graph.node("n1"), precision) == 0


@pytest.mark.parametrize(("precision", "width"), [(FP32, 4), (I8, 1), (I16, 2)])
def test_an_addend_is_an_activation_and_a_control_keeps_its_type(precision: Precision, width: int) -> None:
    net = Network()
    x = net.input("x", 1, 4, 8, 8)
    added = net.op("Add", x, net.constant(np.zeros((4, 1, 1), np.float32)))
    clipped = net.op("Clip", added, net.constant(np.float32(0)), net.constant(np.float32(6)))
    shaped = net.op("Reshape", clipped, net.constant([1, 256]), shape=(1, 256))
    resized = net.op("Resize", shaped, "", net.constant(np.ones(2, np.float32)), mode="nearest")
    graph = net.graph(resized)
    assert constant_bytes(graph, graph.node("n0"), precision) == 4 * width
    assert constant_bytes(graph, graph.node("n1"), precision) == 2 * 4
    assert constant_bytes(graph, graph.node("n2"), precision) == 2 * 8
    assert constant_bytes(graph, graph.node("n3"), precision) == 2 * 4


def test_what_nodes_keep_among_themselves_is_no_traffic() -> None:
    graph = _conv_relu()
    alone = traffic(graph, _nodes(graph, "n0"), I8PC)
    both = traffic(graph, _nodes(graph, "n0", "n1"), I8PC)
    weights = 6 * 4 * 9 + 6 * 4
    assert alone == both == Traffic(4 * PIXELS, weights, 6 * PIXELS)
    assert both.total_bytes == 4 * PIXELS + weights + 6 * PIXELS
    assert traffic(graph, _nodes(graph, "n1"), I8PC) == Traffic(6 * PIXELS, 0, 6 * PIXELS)


def test_what_others_read_and_what_leaves_the_graph_is_written() -> None:
    net = Network()
    first = net.op("Sigmoid", net.input("x", 1, 10))
    second = net.op("Relu", first)
    third = net.op("Add", first, first)
    graph = net.graph(second, third)
    assert traffic(graph, _nodes(graph, "n0", "n1"), I8) == Traffic(10, 0, 20)
    # Read twice by one node, a tensor is brought once.
    assert traffic(graph, _nodes(graph, "n2"), I8) == Traffic(10, 0, 10)
    handed_out = net.graph(first, second, third)
    assert traffic(handed_out, _nodes(handed_out, "n0", "n1", "n2"), I8) == Traffic(10, 0, 30)


def test_a_sizer_tells_steps_precisions_and_graphs_apart() -> None:
    graph, other = _conv_relu(), _wider()
    sizer = Sizer(graph)
    conv, relu = _nodes(graph, "n0", "n1")
    for _ in range(2):
        assert sizer.traffic([conv], I8PC) == traffic(graph, [conv], I8PC)
        assert sizer.traffic([conv, relu], FP32) == traffic(graph, [conv, relu], FP32)
        assert sizer.traffic([relu], FP32) == traffic(graph, [relu], FP32)
        assert sizer.traffic_in(graph, [conv], I16) == traffic(graph, [conv], I16)
        assert sizer.traffic_in(other, [other.node("n0")], I16) == traffic(other, [other.node("n0")], I16)
        assert sizer.macs(graph, conv) == 6 * PIXELS * 4 * 9
        assert sizer.macs(graph, relu) == 0
        assert sizer.macs(other, other.node("n0")) == 7 * PIXELS * 4 * 9


def test_a_sizer_counts_each_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.cost import sizes

    calls: list[str] = []
    count, measure = sizes.node_macs, sizes.traffic

    def counted_macs(graph: Graph, node: Node) -> int | None:
        calls.append("macs")
        return count(graph, node)

    def counted_traffic(*step: Any) -> Any:
        calls.append("traffic")
        return measure(*step)

    monkeypatch.setattr(sizes, "node_macs", counted_macs)
    monkeypatch.setattr(sizes, "traffic", counted_traffic)
    graph = _conv_relu()
    sizer = Sizer(graph)
    for _ in range(3):
        sizer.macs(graph, graph.node("n0"))
        sizer.macs(graph, graph.node("n1"))
        sizer.traffic_in(graph, _nodes(graph, "n0"), I8)
    assert sorted(calls) == ["macs", "macs", "traffic"]


def test_an_unknown_shape_counts_as_no_work() -> None:
    net = Network()
    x = net.input("x", 1, 4, "h", "w")
    made = net.op("Conv", x, net.constant(np.zeros((2, 4, 1, 1), np.float32)), shape=(1, 2, "h", "w"))
    graph = net.graph(made)
    assert Sizer(graph).macs(graph, graph.node("n0")) == 0
    assert Sizer(_conv_relu()).macs(graph, graph.node("n0")) == 0


def test_work_is_the_larger_of_what_is_read_and_what_is_made() -> None:
    net = Network()
    x = net.input("x", 1, 40)
    pooled = net.op("ReduceMax", x, net.constant([1]), shape=(1, 1))
    grown = net.op("Tile", pooled, net.constant([1, 30]), shape=(1, 30))
    table = net.constant(np.zeros(1000, np.float32))
    looked_up = net.op("Gather", table, net.constant([3]), shape=(1,))
    padded = net.op("Pad", grown, net.constant([0, 0, 0, 0]), "", shape=(1, 30))
    graph = net.graph(padded, looked_up)
    assert [work_elements(graph, node) for node in graph.nodes] == [40, 30, 1, 30]


def _wider() -> Graph:
    """Return the like of the first graph with 7 channels and the same names."""
    net = Network()
    return net.graph(net.op("Relu", net.conv(net.input("x", 1, 4, 8, 8), 7, 3)))
