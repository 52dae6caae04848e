"""Numbers in fixed point with more bits behind the point than the vendor's tables are made for.

ovxlib's tables read garbage then: such numbers get coarser steps before a table, or go without one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.backends.verisilicon.views import FINEST_FOR_TABLES
from dovetail.ir import DType, Quantization, TensorType, quantize_array

LISTED = frozenset(
    {"atan", "celu", "elu", "erf", "hard_sigmoid", "log", "mish", "reciprocal", "selu", "softsign", "tan"}
)
"""Functions whose tables ovxlib fills."""
_PLANE = 3


def exceeds_tables(view: NodeView) -> bool:
    """Tell whether ovxlib's tables would read garbage: more than 15 bits are behind the input's point.

    Single values have no table, and the stream processor's tables have no such limit.
    """
    kind, single = view.kind(0), all(size == 1 for size in view.shape(0)[-_PLANE:])
    if kind.quant is None or single or view.draft.part.generation is Generation.STREAM:
        return False
    fixed = kind.dtype is DType.I16 or view.draft.fixed_point
    return fixed and kind.quant.scale[0] < FINEST_FOR_TABLES


def for_table(view: NodeView) -> int:
    """Return the input with at most 15 bits behind the point."""
    if not exceeds_tables(view):
        return view.input(0)
    made = view.new(replace(view.kind(0), quant=Quantization((FINEST_FOR_TABLES,), (0,))))
    view.emit("data_convert", (view.input(0),), (made,))
    return made


def negate(view: NodeView) -> None:
    """Emit the product with -1."""
    dtype, shape = view.kind(0).dtype, (1,) * max(len(view.shape(0)), 1)
    minus = view.hold(np.full(shape, -1, dtype.carrier), TensorType(dtype, shape, Quantization((1.0,), (0,))))
    view.emit("mul", (view.input(0), minus), (view.output(),))


def clip(view: NodeView, low: float, high: float) -> None:
    """Emit the larger of the lower bound and the smaller of the upper one and the input, which need no table."""
    made, shape = view.made(), (1,) * max(len(view.shape(0)), 1)
    quant = made.quant
    assert quant is not None
    bounds = [
        view.hold(quantize_array(np.full(shape, bound), made.dtype, quant), replace(made, shape=shape))
        for bound in (high, low)
    ]
    least = view.new(made)
    view.emit("minimum", (view.input(0), bounds[0]), (least,))
    view.emit("maximum", (least, bounds[1]), (view.output(),))
