"""Sizes of tensors and steps for one sample: what rooflines are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.macs import node_macs
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import Role, input_roles


def element_count(graph: Graph, tensor: str) -> int:
    """Return the elements of a tensor; sizes that are symbolic or unknown count as 1."""
    return graph.element_counts[tensor]


def stored_bytes(graph: Graph, tensor: str, precision: Precision) -> int:
    """Return the bytes of an activation at a precision; tensors that hold no reals keep their type."""
    kind = graph.types[tensor]
    width = precision.activation.dtype.size_bytes if kind.holds_reals else kind.dtype.size_bytes
    return element_count(graph, tensor) * width


def constant_bytes(graph: Graph, node: Node, precision: Precision) -> int:
    """Return the bytes of a node's constants at a precision."""
    if not any(tensor in graph.constants for tensor in node.inputs):
        return 0
    roles = input_roles(graph, node)
    total = 0
    for tensor, role in zip(node.inputs, roles, strict=True):
        if not tensor or tensor not in graph.constants:
            continue
        kind = graph.types[tensor]
        form = kind.dtype
        if kind.holds_reals and role is not Role.CONTROL:
            form = precision.activation.dtype
            if role is Role.WEIGHT:
                form = precision.weight.dtype
            elif role is Role.BIAS:
                form = precision.bias
        width = form.size_bytes
        total += element_count(graph, tensor) * width
    return total


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a step reads and writes: what its nodes keep among themselves does not count."""

    read_bytes: int
    constant_bytes: int
    written_bytes: int

    @property
    def total_bytes(self) -> int:
        """Return all of it."""
        return self.read_bytes + self.constant_bytes + self.written_bytes


def traffic(graph: Graph, nodes: Sequence[Node], precision: Precision) -> Traffic:
    """Return the traffic of nodes that run as one step."""
    inside = {node.name for node in nodes}
    outputs = [tensor for node in nodes for tensor in node.outputs if tensor]
    read = {tensor for node in nodes for tensor in read_tensors(node)}.difference(outputs)
    left = [
        tensor
        for tensor in outputs
        if tensor in graph.outputs or any(user.name not in inside for user in graph.consumers.get(tensor, ()))
    ]
    return Traffic(
        sum([stored_bytes(graph, tensor, precision) for tensor in read if tensor not in graph.constants]),
        sum([constant_bytes(graph, node, precision) for node in nodes]),
        sum([stored_bytes(graph, tensor, precision) for tensor in left]),
    )


@dataclass(frozen=True, slots=True)
class Sizer:
    """The traffic of the steps of one graph; a step goes by its first node."""

    graph: Graph
    _kept: dict[tuple[str, int, Precision], Traffic] = field(default_factory=dict, repr=False)
    _macs: dict[str, int] = field(default_factory=dict, repr=False)

    def traffic(self, nodes: Sequence[Node], precision: Precision) -> Traffic:
        """Return the traffic of nodes that run as one step."""
        key = nodes[0].name, len(nodes), precision
        known = self._kept.get(key)
        if known is None:
            known = self._kept[key] = traffic(self.graph, nodes, precision)
        return known

    def macs(self, graph: Graph, node: Node) -> int:
        """Return the multiply-accumulates of a node of any graph; an unknown shape counts as none."""
        if graph is not self.graph:
            return node_macs(graph, node) or 0
        known = self._macs.get(node.name)
        if known is None:
            known = self._macs[node.name] = node_macs(graph, node) or 0
        return known

    def traffic_in(self, graph: Graph, nodes: Sequence[Node], precision: Precision) -> Traffic:
        """Return the traffic of nodes of any graph."""
        return self.traffic(nodes, precision) if graph is self.graph else traffic(graph, nodes, precision)


def work_elements(graph: Graph, node: Node) -> int:
    """Return how many elements a node touches: the larger of what it reads and what it makes."""
    counts = graph.element_counts
    read = [counts[tensor] for tensor in node.inputs if tensor and tensor not in graph.constants]
    made = [counts[tensor] for tensor in node.outputs if tensor]
    return max([*read, *made])
