"""Single numbers as operands.

The vendor's compiler joins a single number with a product before it, on every part: it multiplies the weights in fixed
point and rounds them once more, up to 329 steps of 16 bits, and adds to the bias before anything is stored. A row of
equal ones it leaves alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.ir import DType, Quantization, TensorType, quantize_array

_MATRIX = 2


def row_of(made: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the shortest row of equal numbers that broadcasts to `made`.

    One of as many as there are channels would be a bias.
    """
    channels = made[1] if len(made) > _MATRIX else made[-1] if made else 1
    shape = [1] * max(len(made), 1)
    for place in reversed(range(len(made))):
        shape[place] = made[place]
        if math.prod(shape) not in (1, channels):
            break
    return tuple(shape)


def number(view: NodeView, value: float, scale: float, shape: Sequence[int]) -> int:
    """Return a number as an operand of a tensor of a shape, stored as the node's first input, but for its scale."""
    kind = view.kind(0)
    fixed = kind.dtype is DType.I16 or view.draft.fixed_point
    row = row_of(shape) if fixed else (1,) * max(len(shape), 1)
    quant = Quantization((scale,), (0,))
    return view.hold(quantize_array(np.full(row, value), kind.dtype, quant), TensorType(kind.dtype, row, quant))
