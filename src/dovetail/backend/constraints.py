"""Reasons why a processor refuses a node."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.types import TensorType


def _reals(graph: Graph, node: Node) -> list[tuple[str, TensorType]]:
    names = [name for name in (*node.inputs, *node.outputs) if name]
    return [(name, graph.types[name]) for name in names if graph.types[name].holds_reals]


@dataclass(frozen=True, slots=True)
class RealTensors:
    """Allow only nodes that compute real numbers (not shapes or indices)."""

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """Return why the node is refused, or None."""
        for name in node.outputs:
            if name and not graph.types[name].holds_reals:
                return f"it computes {graph.types[name].dtype.value} values ('{name}'), not reals"
        if not _reals(graph, node):
            return "it reads no real tensor"
        return None


@dataclass(frozen=True, slots=True)
class StaticShapes:
    """Allow only static shapes; the first dimension may be symbolic (the batch)."""

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """Return why the node is refused, or None."""
        for name, kind in _reals(graph, node):
            if kind.shape is None:
                return f"the rank of '{name}' is not known"
            loose = [index for index, dim in enumerate(kind.shape) if index > 0 and not isinstance(dim, int)]
            if loose:
                return f"dimension {loose[0]} of '{name}' is not static"
        return None


@dataclass(frozen=True, slots=True)
class MaxRank:
    """Allow tensors of at most `rank` dimensions."""

    rank: int

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """Return why the node is refused, or None."""
        for name, kind in _reals(graph, node):
            if kind.shape is not None and len(kind.shape) > self.rank:
                return f"'{name}' has {len(kind.shape)} dimensions > {self.rank}"
        return None


@dataclass(frozen=True, slots=True)
class ConstantInputs:
    """Demand that some inputs are constants."""

    positions: tuple[int, ...]

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """Return why the node is refused, or None."""
        for position in self.positions:
            if position < len(node.inputs):
                tensor = node.inputs[position]
                if tensor and tensor not in graph.constants:
                    return f"input {position} ('{tensor}') is not a constant"
        return None
