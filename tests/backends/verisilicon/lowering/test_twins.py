"""Operators that compute the same from the same are lowered once; all their tensors are still there."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backends.verisilicon.lowering.twins import find_twins
from dovetail.ir import DType, Graph, Node, TensorType


def _graph(nodes: list[Node], outputs: tuple[str, ...], **constants: list[float]) -> Graph:
    kind = TensorType(DType.F32, (1, 4))
    held = {name: np.asarray([value], np.float32) for name, value in constants.items()}
    made = [name for node in nodes for name in node.outputs]
    return Graph("twins", tuple(nodes), ("x",), outputs, dict.fromkeys(["x", *made, *held], kind), held)


def _node(op: str, inputs: str, output: str, **attributes: object) -> Node:
    return Node(output, op, tuple(inputs.split()), (output,), attributes)


def test_equal_operators_and_what_follows_them_are_twins() -> None:
    nodes = [_node("Relu", "x", "a"), _node("Relu", "x", "b"), _node("Sigmoid", "a", "c"), _node("Sigmoid", "b", "d")]
    assert find_twins(_graph([*nodes, _node("Add", "c d", "y")], ("y",))) == {"b": "a", "d": "c"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_node("Elu", "x", "a", alpha=1.0), _node("Elu", "x", "b", alpha=0.5)),
        (_node("Add", "x k", "a"), _node("Add", "x l", "b")),
        (_node("Sub", "x a0", "a"), _node("Sub", "a0 x", "b")),
        (_node("Relu", "x", "a"), _node("Abs", "x", "b")),
    ],
)
def test_what_differs_in_an_attribute_a_constant_an_order_or_an_operator_is_no_twin(one: Node, other: Node) -> None:
    nodes = [_node("Neg", "x", "a0"), one, other, _node("Add", "a b", "y"), _node("Add", "y a0", "z")]
    graph = _graph(nodes, ("z",), k=[1.0, 2.0, 3.0, 4.0], l=[1.0, 2.0, 3.0, 5.0])
    assert find_twins(graph) == {}


def test_constants_of_one_value_are_one() -> None:
    nodes = [_node("Add", "x k", "a"), _node("Add", "x l", "b"), _node("Mul", "a b", "y")]
    values = [1.0, 2.0, 3.0, 4.0]
    assert find_twins(_graph(nodes, ("y",), k=values, l=values)) == {"b": "a"}
