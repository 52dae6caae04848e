"""What a simulated operator is: a function from stored arrays to stored arrays, built once a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backend.arithmetic import Arithmetic, Rounding
from dovetail.backends.npusim.rounding import Store
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, Graph, Node, TensorType

Values = Sequence[AnyArray | None]
Kernel = Callable[[Values], Sequence[AnyArray]]
"""Reads the node's inputs (None where omitted) and returns its outputs, both in the node's order."""


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Give a kernel's builder the node, its types and its constants."""

    graph: Graph
    node: Node
    arithmetic: Arithmetic
    threads: int = 1

    def has(self, index: int) -> bool:
        """Tell whether an input is given."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def input_kind(self, index: int) -> TensorType:
        """Return the type of an input."""
        return self.graph.types[self.node.inputs[index]]

    def input_kinds(self) -> tuple[TensorType, ...]:
        """Return the types of the inputs that are given."""
        return tuple(self.graph.types[name] for name in self.node.inputs if name)

    def constant(self, index: int) -> AnyArray | None:
        """Return the value of a constant input, or None."""
        return self.graph.constants.get(self.node.inputs[index]) if self.has(index) else None

    def output_kind(self, index: int = 0) -> TensorType:
        """Return the type of an output."""
        return self.graph.types[self.node.outputs[index]]

    @property
    def rounding(self) -> Rounding:
        """Return how the node rounds."""
        return self.arithmetic.rounding(self.node.op, self.output_kind().dtype)

    def store(self, index: int = 0) -> Store:
        """Return what turns reals into an output's stored integers."""
        kind = self.output_kind(index)
        return Store(kind, self.arithmetic.rounding(self.node.op, kind.dtype))

    def refuse(self, why: str) -> CompileError:
        """Return an error about this node."""
        return CompileError(f"{self.node.label}: npusim cannot run it: {why}.")


def given(values: Values, index: int) -> AnyArray:
    """Return an input that must be there."""
    value = values[index]
    assert value is not None
    return value


def exact_type(bound: float) -> np.dtype[np.generic]:
    """Return the fastest type in which sums of integers below this size are exact in any order."""
    if bound < 2**24:
        return np.dtype(np.float32)
    return np.dtype(np.float64) if bound < 2**53 else np.dtype(np.int64)
