"""Operators seen with fewer axes, where the vendor's make garbage of many.

Of a tensor with more than four axes, the adder, the stream processor and LeakyRelu compute only what belongs to the
first entry of the outermost ones; shaders mix up operands that broadcast along five blocks of axes in turn; reductions
along the fifth axis and Concat of six are garbage. Measured with five and six axes on v853, a311d, i.MX 8M Plus and
A733. Shapes are the vendor's, fastest axis first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_FLAT = 4
_MOST_JOINED = 5
_POINTWISE = frozenset(
    {
        *("abs", "acosh", "add", "atan", "atanh", "ceil", "celu", "clip", "compare", "cos", "data_convert", "div"),
        *("elu", "erf", "exp", "floor", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "log", "logical"),
        *("logical_not", "maximum", "minimum", "mish", "mod", "mul", "neg", "pow", "reciprocal", "relu", "round"),
        *("select", "selu", "sigmoid", "sign", "sin", "softplus", "softsign", "sqrt", "square", "sub", "swish"),
        *("tan", "tanh"),
    }
)
_REDUCTIONS = {"reduce": 2, "reduce_l2": 1}
"""Reductions, and at which of their whole parameters the axes begin."""


@dataclass(frozen=True, slots=True)
class Folding:
    """How an operator is seen: the shapes of its operands and of its result, and its whole parameters."""

    shapes: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    ints: tuple[int, ...]


def fold(
    kind: str, ints: tuple[int, ...], shapes: Sequence[tuple[int, ...]], result: tuple[int, ...]
) -> Folding | None:
    """Return how an operator has to be seen, None where it stays as it is; ValueError says why it cannot be done."""
    if kind == "concat" and len(result) > _MOST_JOINED:
        (axis,) = ints
        joined = [(math.prod(row[:axis]), row[axis], math.prod(row[axis + 1 :])) for row in (*shapes, result)]
        return Folding(tuple(joined[:-1]), joined[-1], (1,))
    if kind in _REDUCTIONS and max(ints[_REDUCTIONS[kind] :]) >= _FLAT:
        (whole,) = shapes
        if result == whole:
            # Along axes of one element: one of them is left.
            seen = (1, *_merged([whole], _FLAT - 1)[0])
            return Folding((seen,), seen, (*ints[: _REDUCTIONS[kind]], 0))
        rows = _merged([result, whole])
        gone = (axis for axis, (left, size) in enumerate(zip(*rows, strict=True)) if left != size)
        return Folding((rows[1],), rows[0], (*ints[: _REDUCTIONS[kind]], *gone))
    if kind in _POINTWISE and len(result) > _FLAT:
        wide = [shape if len(shape) == len(result) else (1,) * len(result) for shape in shapes]
        rows = _merged([*wide, result])
        kept = (row if len(shape) == len(result) else shape for row, shape in zip(rows, shapes, strict=False))
        return Folding(tuple(kept), rows[-1], ints)
    return None


def _merged(shapes: Sequence[tuple[int, ...]], most: int = _FLAT) -> list[tuple[int, ...]]:
    """Return shapes with neighbouring axes merged until `most` are left, the outermost first.

    Axes are merged where each shape has both as the last one has them, or neither. ValueError: more would be left.
    """
    rows = [list(shape) for shape in shapes]
    while len(rows[-1]) > most:
        at = next((axis for axis in range(len(rows[-1]) - 2, -1, -1) if _alike(rows, axis)), None)
        if at is None:
            raise ValueError(f"its axes are in more than {most} blocks that are treated in turn")
        for row in rows:
            row[at : at + 2] = [row[at] * row[at + 1]]
    return [tuple(row) for row in rows]


def _alike(rows: Sequence[Sequence[int]], axis: int) -> bool:
    """Tell whether an axis and the next can be one in every operand."""
    first, second = rows[-1][axis], rows[-1][axis + 1]
    if 1 in (first, second):
        return True
    return all((row[axis] == first) == (row[axis + 1] == second) for row in rows)
