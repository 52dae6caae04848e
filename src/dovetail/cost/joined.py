"""Give every node of a joined operation its share of the record that the vendor's model has for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dovetail.backend.modelled import OperatorCycles
from dovetail.backend.target import Engine
from dovetail.cost.sizes import element_count
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import CLAMPS

_LONGEST = 3
_ARRAY = re.compile("convolution|depth_wise|fully")
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_SUMS = frozenset({"Add", "Sub"})

Rows = Mapping[str, Sequence[OperatorCycles]]


def share_joined(graph: Graph, recorded: Rows) -> dict[str, tuple[OperatorCycles, ...]]:
    """Return the records by node, where those of joined nodes are shared.

    The vendor names a joined operation by its last node. Each node's share is in proportion to the bytes that it alone
    brings: operands from elsewhere and constants; the result counts for the first, which does the work.
    """
    shared = {node: tuple(items) for node, items in recorded.items()}
    for node in graph.nodes:
        if node.op not in _PRODUCTS | _SUMS or shared.get(node.name):
            continue
        members = _members(graph, node, recorded)
        items = shared[members[-1].name] if members else ()
        parts = _claims(graph, members)
        for index, member in enumerate(members):
            before, upto = sum(parts[:index]) / sum(parts), sum(parts[: index + 1]) / sum(parts)
            shared[member.name] = tuple(_piece(item, before, upto) for item in items)
    return shared


def _members(graph: Graph, first: Node, recorded: Rows) -> list[Node]:
    """Return the nodes from one without a record to the one that the array's operation is named by; none where none."""
    members = [first]
    for _ in range(_LONGEST):
        readers = graph.consumers.get(members[-1].outputs[0], ())
        if len(readers) != 1 or (first.op in _SUMS and readers[0].op not in CLAMPS):
            return []
        members.append(readers[0])
        if items := recorded.get(readers[0].name, ()):
            on_array = any(item.engine is not Engine.SH and _ARRAY.search(item.operation) for item in items)
            return members if on_array else []
    return []


def _claims(graph: Graph, members: Sequence[Node]) -> list[int]:
    """Return the bytes that each member brings; a clamp's bounds are no work."""
    inside = {tensor for member in members for tensor in member.outputs}
    claims = [
        sum(_bytes(graph, tensor) for tensor in member.inputs if tensor and tensor not in inside)
        if member.op not in CLAMPS
        else 0
        for member in members
    ]
    return [claims[0] + _bytes(graph, members[-1].outputs[0]), *claims[1:]] if claims else []


def _bytes(graph: Graph, tensor: str) -> int:
    return element_count(graph, tensor) * graph.types[tensor].dtype.size_bytes


def _piece(item: OperatorCycles, before: float, upto: float) -> OperatorCycles:
    """Return what lies between two shares of a record; the pieces of all members add up to it."""

    def cut(total: int) -> int:
        return round(total * upto) - round(total * before)

    return replace(item, cycles=cut(item.cycles), read_bytes=cut(item.read_bytes), write_bytes=cut(item.write_bytes))
