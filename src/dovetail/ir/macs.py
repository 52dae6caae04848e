"""Count multiply-accumulates."""

from __future__ import annotations

import math

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.types import Dim


def node_macs(graph: Graph, node: Node) -> int | None:
    """Return the multiply-accumulates of a node for one sample: a symbolic first size, the batch, counts as 1.

    Operators that accumulate nothing have 0; None says that a shape is not known or depends on the input.
    """
    if node.domain or node.op not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
        return 0
    first, second = (_sizes(graph, name) for name in node.inputs[:2])
    output = _sizes(graph, node.outputs[0])
    if first is None or second is None or output is None or len(second) < 1:
        return None
    match node.op:
        case "Conv":
            return math.prod(output) * math.prod(second[1:])
        case "ConvTranspose":
            return math.prod(first) * math.prod(second[1:])
        case "Gemm":
            inner = first[0] if node.integer("transA", 0) else first[-1]
            return math.prod(output) * inner
        case _:
            return math.prod(output) * first[-1]


def graph_macs(graph: Graph) -> int | None:
    """Return the multiply-accumulates of a graph for one sample; None when a shape is unknown."""
    counts = [node_macs(graph, node) for node in graph.nodes]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _sizes(graph: Graph, tensor: str) -> tuple[int, ...] | None:
    shape = graph.types[tensor].shape
    if shape is None:
        return None
    batch: tuple[Dim, ...] = tuple(1 if isinstance(dim, str) else dim for dim in shape[:1])
    sizes = [dim for dim in (*batch, *shape[1:]) if isinstance(dim, int)]
    return tuple(sizes) if len(sizes) == len(shape) else None
