"""Operators that only move values: they work on the stored integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backends.npusim.boundary import requantizer
from dovetail.backends.npusim.kernel import Kernel, NodeContext, Values, given
from dovetail.backends.npusim.rounding import centred
from dovetail.ir import AnyArray, Node, TensorType
from dovetail.ir.roles import is_pass_through

Move = Callable[[Values], Sequence[AnyArray]]


def _axis(node: Node, default: int) -> int:
    return node.integer("axis", default)


def _reshape(node: Node) -> Move:
    keep_zero = not node.integer("allowzero", 0)

    def run(values: Values) -> Sequence[AnyArray]:
        data, wanted = given(values, 0), [int(size) for size in given(values, 1)]
        shape = [data.shape[at] if size == 0 and keep_zero else size for at, size in enumerate(wanted)]
        return (data.reshape(shape),)

    return run


def _flatten(node: Node) -> Move:
    axis = _axis(node, 1)

    def run(values: Values) -> Sequence[AnyArray]:
        data = given(values, 0)
        at = axis + data.ndim if axis < 0 else axis
        rows = int(np.prod(data.shape[:at], dtype=np.int64))
        return (data.reshape(rows, int(np.prod(data.shape[at:], dtype=np.int64))),)

    return run


def _transpose(node: Node) -> Move:
    order = node.integers("perm") or None
    return lambda values: (np.ascontiguousarray(np.transpose(given(values, 0), order)),)


def _squeeze(node: Node) -> Move:
    def run(values: Values) -> Sequence[AnyArray]:
        axes = tuple(int(axis) for axis in given(values, 1)) if len(values) > 1 and values[1] is not None else None
        return (np.squeeze(given(values, 0), axes),)

    return run


def _unsqueeze(node: Node) -> Move:
    return lambda values: (np.expand_dims(given(values, 0), tuple(int(axis) for axis in given(values, 1))),)


def _slice(node: Node) -> Move:
    def run(values: Values) -> Sequence[AnyArray]:
        data, starts, ends = given(values, 0), given(values, 1).tolist(), given(values, 2).tolist()
        axes = given(values, 3).tolist() if len(values) > 3 and values[3] is not None else list(range(len(starts)))
        steps = given(values, 4).tolist() if len(values) > 4 and values[4] is not None else [1] * len(starts)
        parts = [slice(None)] * data.ndim
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            parts[axis] = _part(data.shape[axis], start, end, step)
        return (np.ascontiguousarray(data[tuple(parts)]),)

    return run


def _part(size: int, start: int, end: int, step: int) -> slice:
    """Return ONNX's slice as Python's: a negative step may run past the first element."""
    start, end = (start + size if start < 0 else start), (end + size if end < 0 else end)
    if step > 0:
        return slice(min(max(start, 0), size), min(max(end, 0), size), step)
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return slice(start, None if end < 0 else end, step)


def _split(node: Node) -> Move:
    axis, count = _axis(node, 0), len(node.outputs)

    def run(values: Values) -> Sequence[AnyArray]:
        data = given(values, 0)
        if len(values) > 1 and values[1] is not None:
            sizes = [int(size) for size in given(values, 1)]
        else:
            each = -(-data.shape[axis] // count)
            sizes = [max(0, min(each, data.shape[axis] - each * index)) for index in range(count)]
        parts = np.split(data, np.cumsum(sizes)[:-1], axis)
        return tuple(np.ascontiguousarray(part) for part in parts)

    return run


def _gather(node: Node) -> Move:
    axis = _axis(node, 0)
    return lambda values: (np.take(given(values, 0), given(values, 1), axis, mode="wrap"),)


def _identity(node: Node) -> Move:
    return lambda values: (given(values, 0),)


_MOVES: dict[str, Callable[[Node], Move]] = {
    "Dropout": _identity,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _identity,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


@dataclass(frozen=True, slots=True)
class Moved:
    """Move stored integers, then store them in another type where that is asked for."""

    move: Move
    after: tuple[Kernel | None, ...]

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored outputs."""
        moved = self.move(values)
        return tuple(
            part if change is None else change((part,))[0] for part, change in zip(moved, self.after, strict=False)
        )


@dataclass(frozen=True, slots=True)
class MovedAsFloats:
    """Move centred integers as float32, which holds 16 bits exactly: for operators that only move, or pad with 0."""

    operator: Move
    kind: TensorType

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored outputs."""
        assert self.kind.quant is not None
        zero = self.kind.quant.zero_point[0]
        moved = self.operator((centred(given(values, 0), self.kind, np.float32), *values[1:]))
        return tuple((part + np.float32(zero)).astype(self.kind.dtype.carrier) for part in moved)


def build_movement(context: NodeContext, operator: Callable[[], Move]) -> Kernel | None:
    """Return the integer kernel of an operator that only moves values, or None.

    `operator` makes the same operator for float32 values; it serves the rarer movements.
    """
    node, kind = context.node, context.input_kind(0)
    if kind.quant is None or kind.quant.per_channel or kind.dtype.size_bytes > 2:
        return None
    named = node.op in _MOVES and not node.domain and not (node.op == "Dropout" and len(node.outputs) > 1)
    if not named and not is_pass_through(context.graph, node):
        return None
    changes: list[Kernel | None] = []
    for index, name in enumerate(node.outputs):
        output = context.graph.types[name] if name else kind
        if output.quant is None:
            return None
        same = output.quant == kind.quant and output.dtype is kind.dtype
        changes.append(None if same or not name else requantizer(kind, context.store(index)))
    move: Move = _MOVES[node.op](node) if named else MovedAsFloats(operator(), kind)
    return Moved(move, tuple(changes))


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Join stored tensors, each first stored in the output's type."""

    axis: int
    changes: tuple[Kernel | None, ...]

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored output."""
        parts = [
            given(values, index) if change is None else change((given(values, index),))[0]
            for index, change in enumerate(self.changes)
        ]
        return (np.concatenate(parts, self.axis),)


def build_concat(context: NodeContext) -> Kernel | None:
    """Return the integer kernel of Concat, or None when something in it is not quantised."""
    output = context.output_kind()
    kinds = [context.input_kind(index) for index in range(len(context.node.inputs))]
    if any(kind.quant is None or kind.quant.per_channel for kind in (*kinds, output)):
        return None
    same = [kind.quant == output.quant and kind.dtype is output.dtype for kind in kinds]
    changes = tuple(
        None if equal else requantizer(kind, context.store()) for kind, equal in zip(kinds, same, strict=True)
    )
    return Concatenation(context.node.integer("axis", 0), changes)
