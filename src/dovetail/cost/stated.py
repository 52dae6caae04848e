"""Ranges that nobody measured: prices hardly depend on them, but whether something that moves data rescales it does."""

from __future__ import annotations

import math

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import joins_parts
from dovetail.quantize.ranges import Range, Ranges

_WIDE = Range(-8.0, 8.0)
_UNIT = frozenset({"Sigmoid", "Softmax", "HardSigmoid"})


def stated_ranges(graph: Graph) -> Ranges:
    """Return the ranges of all tensors that hold reals."""
    reals = (name for name, kind in graph.types.items() if kind.holds_reals)
    return Ranges(graph.digest, "stated", 0, {name: stated_range(graph, name) for name in reals})


def stated_range(graph: Graph, tensor: str) -> Range:
    """Return the range of a tensor; clamps and squashing operators have those that they imply, parts have one."""
    node = graph.producers.get(tensor)
    if node is None or tensor != node.outputs[0]:
        return _WIDE
    if node.op in _UNIT:
        return Range(0.0, 1.0)
    if joins_parts(graph, node):
        return stated_range(graph, node.inputs[0])
    if node.op == "Relu":
        return Range(0.0, _WIDE.high)
    if node.op == "Clip":
        low, high = (_bound(graph, node, index) for index in (1, 2))
        wide = Range(max(low, _WIDE.low), min(high, _WIDE.high))
        return wide if wide.low < wide.high else _WIDE
    return _WIDE


def _bound(graph: Graph, node: Node, index: int) -> float:
    value = graph.constants.get(node.inputs[index]) if index < len(node.inputs) else None
    return math.copysign(math.inf, index - 1.5) if value is None or value.size != 1 else float(value.reshape(-1)[0])
