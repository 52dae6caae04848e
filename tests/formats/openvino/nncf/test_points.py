"""Where NNCF rounds activations, and within what."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dovetail.formats.openvino.nncf.points import PointRounding, rounding_points
from dovetail.ir import Graph
from dovetail.testing.networks import Network

from ...conftest import make_plan

_LOW = "vsi:v853@i8pc"


def _points(graph: Graph, **floats: str) -> Mapping[tuple[str, str], PointRounding]:
    """Return roundings by the tensor that is read and the operator that reads it."""
    found = rounding_points(graph, make_plan(graph, _LOW, **floats))
    return {(graph.node(name).inputs[index], graph.node(name).op): point for (name, index), point in found.items()}


def _depthwise(net: Network, tensor: str) -> str:
    channels = net.shape(tensor)[1]
    return net.op("Conv", tensor, net.uniform(channels, 1, 3, 3), group=channels, pads=(1, 1, 1, 1))


def test_what_an_operator_reads_is_rounded_and_no_output() -> None:
    net = Network(1)
    first = net.conv(net.input("x", 1, 4, 8, 8), 4)
    graph = net.graph(net.conv(net.op("Relu", first), 4))
    relu = graph.node(next(node.name for node in graph.nodes if node.op == "Relu")).outputs[0]
    assert _points(graph) == {("x", "Conv"): PointRounding(("x",)), (relu, "Conv"): PointRounding((relu,))}


def test_what_stays_in_float_reads_no_rounded_numbers() -> None:
    net = Network(1)
    graph = net.graph(net.conv(net.conv(net.input("x", 1, 4, 8, 8), 4), 4))
    last = graph.nodes[-1]
    assert list(_points(graph, **{last.name: "cpu@fp32"})) == [("x", "Conv")]


def test_a_depthwise_convolution_has_a_range_for_each_channel_unless_others_read_the_tensor() -> None:
    net = Network(1)
    graph = net.graph(_depthwise(net, net.input("x", 1, 4, 8, 8)))
    assert _points(graph) == {("x", "Conv"): PointRounding(("x",), per_channel=True)}
    net = Network(1)
    net.input("x", 1, 4, 8, 8)
    graph = net.graph(_depthwise(net, "x"), net.conv("x", 4))
    assert set(_points(graph).values()) == {PointRounding(("x",))}


def test_a_range_for_each_channel_remains_where_something_reads_the_tensor_in_float() -> None:
    net = Network(1)
    net.input("x", 1, 4, 8, 8)
    graph = net.graph(_depthwise(net, "x"), net.conv("x", 4), net.op("Tanh", "x"))
    tanh = next(node.name for node in graph.nodes if node.op == "Tanh")
    found = rounding_points(graph, make_plan(graph, _LOW, **{tanh: "cpu@fp32"}))
    assert sorted(point.per_channel for point in found.values()) == [False, True]


def test_a_rounding_moves_up_through_what_moves_values_while_nothing_else_reads_them() -> None:
    net = Network(1)
    pooled = net.op("MaxPool", net.input("x", 1, 4, 8, 8), kernel_shape=(3, 3), pads=(1,) * 4)
    graph = net.graph(net.conv(pooled, 4))
    assert _points(graph) == {(pooled, "Conv"): PointRounding(("x",))}
    net = Network(1)
    pooled = net.op("MaxPool", net.input("x", 1, 4, 8, 8), kernel_shape=(3, 3), pads=(1,) * 4)
    graph = net.graph(net.conv(pooled, 4), net.op("Tanh", pooled))
    tanh = next(node.name for node in graph.nodes if node.op == "Tanh")
    assert _points(graph, **{tanh: "cpu@fp32"}) == {(pooled, "Conv"): PointRounding((pooled,))}


def test_a_rounding_moves_up_through_a_split_only_with_those_of_all_parts() -> None:
    net = Network(1)
    one, other = net.split(net.input("x", 1, 4, 8, 8))
    graph = net.graph(net.conv(one, 4), net.op("Tanh", other))
    tanh = next(node.name for node in graph.nodes if node.op == "Tanh")
    assert _points(graph, **{tanh: "cpu@fp32"}) == {(one, "Conv"): PointRounding((one,))}
    net = Network(1)
    one, other = net.split(net.input("x", 1, 4, 8, 8))
    graph = net.graph(net.conv(one, 4), net.conv(other, 4))
    assert set(_points(graph).values()) == {PointRounding(("x",))}


def test_what_is_joined_for_a_convolution_has_one_range_and_for_a_sum_its_own() -> None:
    net = Network(1)
    net.input("x", 1, 4, 8, 8)
    net.input("y", 1, 4, 8, 8)
    joined = net.op("Concat", "x", "y", shape=(1, 8, 8, 8), axis=1)
    graph = net.graph(net.conv(joined, 4))
    assert _points(graph) == {(joined, "Conv"): PointRounding(("x", "y"))}
    net = Network(1)
    net.input("x", 1, 4, 8, 8)
    net.input("y", 1, 4, 8, 8)
    joined = net.op("Concat", "x", "y", shape=(1, 8, 8, 8), axis=1)
    graph = net.graph(net.op("AveragePool", joined, kernel_shape=(3, 3), pads=(1,) * 4))
    points = {tensor: point for (tensor, op), point in _points(graph).items() if op == "Concat"}
    assert points == {"x": PointRounding(("x",)), "y": PointRounding(("y",))}


def _block(net: Network, *, relu: bool = False, read_again: bool = False, rounded: bool = True) -> Graph:
    """Return a residual block; the sum is rounded where a convolution reads it."""
    stem = net.conv(net.input("x", 1, 4, 8, 8), 4)
    inner = net.conv(net.conv(stem, 4), 4)
    made = net.op("Relu", inner) if relu else inner
    total = net.op("Add", stem, made)
    outputs = [net.conv(total, 4) if rounded else total]
    return net.graph(*outputs, *([net.conv(made, 4)] if read_again else []))


def _held(graph: Graph) -> list[bool]:
    """Return which operands of the sum are only held within their range."""
    total = next(node for node in graph.nodes if node.op == "Add")
    found = rounding_points(graph, make_plan(graph, _LOW))
    return [found[total.name, index].held_only for index in range(2)]


def test_a_sum_within_a_convolution_holds_what_that_makes_and_does_not_round_it() -> None:
    assert _held(_block(Network(1))) == [False, True]


@pytest.mark.parametrize("change", ["relu", "read_again"])
def test_a_sum_behind_an_activation_or_of_what_is_read_elsewhere_is_none_within_a_convolution(change: str) -> None:
    assert _held(_block(Network(1), **{change: True})) == [False, False]


def test_a_sum_that_is_not_rounded_is_none_within_a_convolution() -> None:
    assert _held(_block(Network(1), rounded=False)) == [False, False]


def test_a_sum_takes_the_place_of_no_operand_that_is_read_later() -> None:
    net = Network(1)
    x = net.input("x", 1, 4, 8, 8)
    stem = net.conv(x, 4)
    total = net.op("Add", stem, net.conv(x, 4))
    assert _held(net.graph(net.conv(total, 4))) == [True, False]
    net = Network(1)
    x = net.input("x", 1, 4, 8, 8)
    stem = net.conv(x, 4)
    total = net.op("Add", stem, net.conv(x, 4))
    assert _held(net.graph(net.conv(total, 4), net.conv(stem, 4))) == [False, False]
