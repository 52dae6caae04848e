"""Nodes: attributes by kind, equality by value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dovetail.ir import Graph, Node, parse_graph
from dovetail.ir.node import is_fact, without_facts


def _node(**attributes: object) -> Node:
    return Node("n", "Op", ("x",), ("y",), attributes)


def _body(op: str) -> Graph:
    return parse_graph(f'graph "b" opset 21\ninput "x": f32[1]\n"i" = {op}("x") -> ("y": f32[1])\noutput "y"\nend\n')


def test_attributes_are_read_by_kind() -> None:
    node = _node(i=3, f=0.5, t="max", l=(1, 2), e=())
    assert (node.integer("i", 7), node.integer("none", 7)) == (3, 7)
    assert (node.number("f", 1.0), node.number("none", 1.5), node.number("i", 0.0)) == (0.5, 1.5, 3.0)
    assert isinstance(node.number("i", 0.0), float)
    assert (node.text("t", "min"), node.text("none", "min")) == ("max", "min")
    assert (node.integers("l"), node.integers("e", (1,)), node.integers("none")) == ((1, 2), (), ())
    assert node.integers("none", (5,)) == (5,)


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda node: node.integer("t", 0), r"node 'n' \(Op\): attribute t is not an integer"),
        (lambda node: node.integer("f", 0), "attribute f is not an integer"),
        (lambda node: node.number("t", 0.0), "attribute t is not a number"),
        (lambda node: node.text("i", ""), "attribute i is not a string"),
        (lambda node: node.integers("i"), "attribute i is not a list of integers"),
        (lambda node: node.integers("m"), "attribute m is not a list of integers"),
    ],
)
def test_an_attribute_of_another_kind_is_named(read: Callable[[Node], object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        read(_node(i=3, f=0.5, t="max", m=(1, 0.5)))


def test_a_node_stands_for_itself_unless_said_otherwise() -> None:
    assert _node().origin == ("n",)
    assert Node("n", "Op", (), ("y",), origin=("a", "b")).origin == ("a", "b")
    assert _node().label == "node 'n' (Op)"


def test_attributes_cannot_be_changed() -> None:
    given = {"a": 1}
    node = Node("n", "Op", (), ("y",), given)
    given["a"] = 2
    assert node.attributes["a"] == 1
    with pytest.raises(TypeError):
        node.attributes["a"] = 3  # type: ignore[index]


def test_bodies_are_the_graphs_among_the_attributes() -> None:
    body = _body("Abs")
    assert _node(a=1, then_branch=body, b="x").bodies() == (body,)
    assert _node().bodies() == ()


def test_facts_of_other_frameworks_have_a_dot() -> None:
    assert is_fact("tflite.scales")
    assert not is_fact("scales")
    assert without_facts({"a": 1, "tflite.b": 2}) == {"a": 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1),
        (float("nan"), float("nan")),
        (0.0, -0.0),
        ((1, 2), (1, 2)),
        (np.array([1, 2], np.int8), np.array([1, 2], np.int8)),
        (np.array([np.nan], np.float32), np.array([np.nan], np.float32)),
        (_body("Abs"), _body("Abs")),
    ],
)
def test_equal_attributes_make_equal_nodes(one: object, other: object) -> None:
    assert _node(a=one) == _node(a=other)
    assert hash(_node(a=one)) == hash(_node(a=other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        (0.5, 0.25),
        (float("nan"), 1.0),
        (1.0, float("nan")),
        ("a", "b"),
        ((1, 2), (1, 3)),
        (np.array([1], np.int8), np.array([2], np.int8)),
        (np.array([1], np.int8), np.array([1], np.uint8)),
        (np.array([1], np.int8), np.array([[1]], np.int8)),
        (np.array([1], np.int8), 1),
        (_body("Abs"), _body("Neg")),
    ],
)
def test_unlike_attributes_make_unlike_nodes(one: object, other: object) -> None:
    assert _node(a=one) != _node(a=other)
    assert _node(a=other) != _node(a=one)


@pytest.mark.parametrize(
    "other",
    [
        Node("m", "Op", ("x",), ("y",)),
        Node("n", "Po", ("x",), ("y",), origin=("n",)),
        Node("n", "Op", ("z",), ("y",)),
        Node("n", "Op", ("x",), ("z",)),
        Node("n", "Op", ("x",), ("y",), domain="my.own"),
        Node("n", "Op", ("x",), ("y",), origin=("m",)),
        Node("n", "Op", ("x",), ("y",), {"a": 1}),
        "n",
    ],
)
def test_a_node_is_all_of_its_fields(other: object) -> None:
    assert _node() != other
    assert _node() == Node("n", "Op", ("x",), ("y",))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "f4"])
def test_attributes_of_another_type_are_others(dtype: str) -> None:
    one, other = (Node("n", "Op", ("x",), ("y",), {"a": np.zeros(0, kind)}) for kind in (dtype, "i8"))
    assert one != other
    assert other != one
    assert one == Node("n", "Op", ("x",), ("y",), {"a": np.zeros(0, dtype)})
