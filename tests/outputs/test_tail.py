"""What a tail tells of an output's entries, on graphs worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.outputs.axes import before_reshape, before_transpose, own_axes
from dovetail.outputs.tail import trace_tail
from dovetail.testing.heads.net import HeadNet


def labels(*axes):
    return tuple(frozenset(axis) for axis in axes)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((1, 85, 52, 52), (1, 85, 2704), labels((0,), (1,), (2,), (2,))),
        ((1, 2704, 85), (1, 52, 52, 85), labels((0,), (1, 2), (3,))),
        ((1, 255, 4, 4), (1, 3, 85, 4, 4), labels((0,), (1, 2), (3,), (4,))),
        ((1, 1, 6), (6,), labels((), (), (0,))),
    ],
)
def test_labels_go_back_through_a_reshape(before, after, expected):
    found = before_reshape(own_axes(len(after)), before, after)
    # Axes of size 1 carry nothing.
    wide = [axis for axis, size in enumerate(before) if size != 1]
    assert [found[axis] for axis in wide] == [expected[axis] for axis in wide]


def test_labels_go_back_through_a_transpose():
    assert before_transpose(own_axes(3), (0, 2, 1)) == labels((0,), (2,), (1,))


def test_parts_of_channels_and_of_levels_are_told_apart():
    net = HeadNet(0)
    features = net.backbone(net.picture(32, 32), (8, 16))
    levels = []
    for feature in features:
        parts = [net.conv(feature, 4), net.sigmoid(net.conv(feature, 1)), net.sigmoid(net.conv(feature, 3))]
        joined = net.concat(parts, 1)
        rows, cols = net.shape(joined)[2:]
        levels.append(net.reshape(joined, 1, 8, rows * cols))
    table = net.transpose(net.concat(levels, 2), (0, 2, 1))
    graph = net.graph(table)
    tail = trace_tail(graph, table, (1, 20, 8))
    assert [(start, stop) for start, stop, _ in tail.segments(2, 8)] == [(0, 4), (4, 5), (5, 8)]
    assert [(start, stop) for start, stop, _ in tail.segments(1, 20)] == [(0, 16), (16, 20)]
    applied = [{leaf.activation for leaf in leaves} for _, _, leaves in tail.segments(2, 8)]
    assert applied == [{""}, {"Sigmoid"}, {"Sigmoid"}]
    assert {leaf.maker for leaf in tail.leaves} == {"Conv"}


def test_softmax_axis_is_that_of_the_output():
    net = HeadNet(0)
    scores = net.softmax(net.conv(net.picture(8, 8), 5), 1)
    turned = net.transpose(scores, (0, 2, 3, 1))
    tail = trace_tail(net.graph(turned), turned, (1, 8, 8, 5))
    assert [(leaf.activation, leaf.softmax_axis) for leaf in tail.leaves] == [("Softmax", 3)]


def test_arithmetic_and_what_lies_before_are_seen():
    net = HeadNet(0)
    deep = net.up(net.relu(net.up(net.conv(net.picture(8, 8), 4), 4)), 1)
    scaled = net.op("Mul", net.sigmoid(deep), net.constant(np.float32(2.0)))
    tail = trace_tail(net.graph(scaled), scaled, net.shape(scaled))
    assert [leaf.arithmetic for leaf in tail.leaves] == [frozenset({"Mul"})]
    assert tail.activations == {"Sigmoid"}
    assert tail.earlier == {"ConvTranspose"}
    assert not tail.resized


@pytest.mark.parametrize("op", ["Relu", "Clip"])
def test_what_keeps_shares_in_their_bounds_is_not_the_activation(op):
    """A score in bytes whose zero is their least is dequantised to a Sigmoid with a Relu behind it."""
    net = HeadNet(0)
    score = net.op(op, net.sigmoid(net.dense(net.input("x", 1, 16), 1)))
    (leaf,) = trace_tail(net.graph(score), score, (1, 1)).leaves
    assert (leaf.activation, leaf.arithmetic) == ("Sigmoid", frozenset())
    other = net.op(op, net.op("Tanh", net.dense(net.input("y", 1, 16), 1)))
    (leaf,) = trace_tail(net.graph(other), other, (1, 1)).leaves
    assert leaf.activation == op
