"""Where a power is one of numbers that are never negative, as far as the graph tells."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import PASS_THROUGH
from dovetail.ir.types import dequantize_array

_NEVER_NEGATIVE = frozenset({"Abs", "Exp", "HardSigmoid", "ReduceL2", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt"})
_KEEPING = PASS_THROUGH | {"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceSum", "Requantize"}
"""Operators that make no negative number of others."""
_FARTHEST = 8
"""Nodes that are looked at."""
_OWN_OPERATORS = (0.5, 2.0, -1.0)
"""Exponents that the vendor has functions for."""


@dataclass(frozen=True, slots=True)
class ExponentIsWhole:
    """Allow only powers whose constant exponent is whole, or has an operator of its own."""

    or_never_negative: bool = False
    """Other exponents, too, where the base cannot be negative and its storage has no room for it."""

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """Return why the node is refused, or None."""
        stored = graph.constants.get(node.inputs[1])
        if stored is None or not stored.size:
            return f"its exponent ('{node.inputs[1]}') is not a constant"
        quant = graph.types[node.inputs[1]].quant
        exponent = float((stored if quant is None else dequantize_array(stored, quant)).reshape(-1)[0])
        if exponent.is_integer() or exponent in _OWN_OPERATORS:
            return None
        if self.or_never_negative and _is_never_negative(graph, node.inputs[0]):
            return None
        told = "whole ones and 0.5 are possible, others at u8, i8 and i8pc behind a Relu"
        return f"exponent {exponent:g} of a base that may be negative ({told})"


def _is_never_negative(graph: Graph, tensor: str) -> bool:
    for _ in range(_FARTHEST):
        maker = graph.producers.get(tensor)
        if maker is None or maker.op in _NEVER_NEGATIVE:
            return maker is not None
        if maker.op == "Clip":
            low = graph.constants.get(maker.inputs[1]) if len(maker.inputs) > 1 else None
            return low is not None and bool((low >= 0).all())
        if maker.op not in _KEEPING:
            return False
        tensor = maker.inputs[0]
    return False
