"""What an operator tells apart of what it reads: beyond that, every value gives the same byte."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.quantize.ranges import Range

_SIGMOID = 8.0
"""Where a sigmoid is within 0.0004 of its end: a tenth of a byte's step."""
_SILU = 10.0
"""Where x times its sigmoid is within 0.0005 of zero; Mish lies nearer."""

_FLAT: Mapping[str, Range] = {
    "Elu": Range(-_SIGMOID, math.inf),
    "Gelu": Range(-4.0, math.inf),
    "HardSwish": Range(-3.0, math.inf),
    "Mish": Range(-_SILU, math.inf),
    "Selu": Range(-_SIGMOID, math.inf),
    "Softplus": Range(-_SIGMOID, math.inf),
    "Tanh": Range(-_SIGMOID / 2, _SIGMOID / 2),
}
"""Where operators are not yet flat (ONNX operators 24.0.0); HardSwish is exactly 0 below."""


def told_apart(graph: Graph, node: Node, tensor: str, needed: Mapping[str, Range]) -> Range | None:
    """Return the range that a node tells apart of a tensor that it reads as its first input or as a factor.

    `needed` is what is needed of the node's own output, where less than everything is. None where it tells everything.
    """
    if node.op == "Sigmoid":
        made = needed.get(node.outputs[0], Range(0.0, 1.0))
        return Range(_logit(made.low), _logit(made.high))
    if node.op == "HardSigmoid":
        return _slope(node)
    if node.op == "Mul":
        return _gated(graph, node, tensor)
    return _FLAT.get(node.op)


def _gated(graph: Graph, node: Node, tensor: str) -> Range | None:
    """Return what is told apart of a tensor that is multiplied by its own gate."""
    gates = [graph.producers.get(name) for name in node.inputs if name != tensor]
    if len(gates) != 1 or gates[0] is None or gates[0].domain or gates[0].inputs[0] != tensor:
        return None
    if gates[0].op == "Sigmoid":
        return Range(-_SILU, math.inf)
    if gates[0].op == "HardSigmoid":
        opens = _slope(gates[0])
        return None if opens is None else Range(opens.low, math.inf)
    return None


def _slope(node: Node) -> Range | None:
    """Return where a hard sigmoid is neither 0 nor 1."""
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return Range(-beta / alpha, (1.0 - beta) / alpha) if alpha > 0 else None


def _logit(share: float) -> float:
    if not 0.0 < share < 1.0:
        return math.copysign(_SIGMOID, share - 0.5)
    return max(-_SIGMOID, min(_SIGMOID, math.log(share / (1.0 - share))))
