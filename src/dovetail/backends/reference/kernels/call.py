"""What a kernel is given: one node and the values of its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.backend.arithmetic import Accumulator
from dovetail.ir import AnyArray, DType, Node


@dataclass(frozen=True, slots=True)
class Call:
    """Apply a node to values.

    Real tensors (float or quantised) come as float64, everything else in its stored type; an omitted input is None.
    `output_types` are the element types that the graph declares, None for an omitted output. `accumulator` says how
    operators on stored bytes add their products up.
    """

    node: Node
    inputs: tuple[AnyArray | None, ...]
    output_types: tuple[DType | None, ...]
    accumulator: Accumulator = Accumulator.WIDE

    @property
    def x(self) -> AnyArray:
        """Return the first input."""
        return self.input(0)

    def input(self, index: int) -> AnyArray:
        """Return an input that must be there; raise ValueError when it is not."""
        value = self.optional(index)
        if value is None:
            raise ValueError(f"input {index} is missing")
        return value

    def optional(self, index: int) -> AnyArray | None:
        """Return an input, or None when it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def present(self) -> tuple[AnyArray, ...]:
        """Return the inputs of a variadic operator."""
        return tuple(value for value in self.inputs if value is not None)

    def sizes(self, index: int) -> tuple[int, ...] | None:
        """Return an input that is a list of integers, or None when it is omitted."""
        value = self.optional(index)
        return None if value is None else tuple(int(item) for item in value.reshape(-1))

    def scalar(self, index: int, default: float) -> float:
        """Return an input of one element."""
        value = self.optional(index)
        return default if value is None or value.size == 0 else float(value.reshape(-1)[0])

    def wants(self, output: int) -> bool:
        """Tell whether the graph asks for an output."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    @property
    def output_dtype(self) -> np.dtype[np.generic]:
        """Return the numpy type that the first output must have; float64 for reals."""
        declared = self.output_types[0]
        if declared is None or declared.is_float:
            return np.dtype(np.float64)
        return declared.carrier


Kernel = Callable[[Call], tuple[AnyArray, ...]]
Kernels = Mapping[str, Kernel]


def axis_of(axis: int, rank: int) -> int:
    """Return a dimension index counted from the front; raise ValueError when it is out of range."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside rank {rank}")
    return axis + rank if axis < 0 else axis


def axes_of(axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Return dimension indices counted from the front; all of them when none are named."""
    return tuple(range(rank)) if axes is None else tuple(axis_of(axis, rank) for axis in axes)


_EXACT_LIMIT = 2**53
_WIDEST = 2**63


def exact_matmul(left: AnyArray, right: AnyArray) -> AnyArray:
    """Multiply matrices; integers give the exact int64 product, or OverflowError when it may not fit.

    While no sum can leave the 53 bits that float64 holds exactly, the product is done there, which is faster
    and gives the same integers in any order of summation.
    """
    if left.dtype.kind == "f" or right.dtype.kind == "f":
        return np.asarray(np.matmul(left, right))
    bound = left.shape[-1] * _largest(left) * _largest(right)
    if bound >= _WIDEST:
        raise OverflowError("a sum of products may need more than 64 bits")
    if bound < _EXACT_LIMIT:
        return np.asarray(np.matmul(left.astype(np.float64), right.astype(np.float64))).astype(np.int64)
    return np.asarray(np.matmul(left.astype(np.int64), right.astype(np.int64)))


def _largest(array: AnyArray) -> int:
    return max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0


def product(sizes: tuple[int, ...]) -> int:
    """Return the number of elements of a shape."""
    return math.prod(sizes)
