"""Graphs for one sample of a symbolic batch."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from dovetail.errors import CompileError
from dovetail.ir import Graph, TensorType
from dovetail.ir.types import Dim


def bind_batch(graph: Graph) -> tuple[Graph, bool]:
    """Return the graph for one sample, and whether it has a symbolic batch that is run sample by sample.

    The batch is a symbolic first size of every input and output, by whatever name: converters give outputs one of their
    own. Raise CompileError where another size is not known.
    """
    edges = {name: graph.types[name].shape or () for name in (*graph.inputs, *graph.outputs)}
    symbols = {dim for shape in edges.values() for dim in shape if not isinstance(dim, int)}
    if not symbols:
        return graph, False
    for name, shape in edges.items():
        if not shape or isinstance(shape[0], int) or not all(isinstance(dim, int) for dim in shape[1:]):
            raise CompileError(
                f"graph '{graph.name}': '{name}' does not have the batch as its first size only.",
                hint="Import the model with static shapes.",
            )
    return graph.evolve(types={name: _bound(kind, symbols) for name, kind in graph.types.items()}), True


def _bound(kind: TensorType, symbols: Set[Dim]) -> TensorType:
    """Return a type with 1 for a first size that is a batch; inner tensors have names of their own for it, too."""
    if not kind.shape or isinstance(kind.shape[0], int):
        return kind
    rest = tuple(1 if dim in symbols else dim for dim in kind.shape[1:])
    return replace(kind, shape=(1, *rest))
