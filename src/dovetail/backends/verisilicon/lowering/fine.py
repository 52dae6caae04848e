"""Numbers in fixed point with more bits behind the point than the vendor's tables are made for, and larger ones.

ovxlib's tables read garbage then: such numbers get coarser steps before a table, or go without one. The floats of the
tensor processor end at 65,536, and beyond it turns signs around: larger numbers are cut there, or go without it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.lowering.numbers import number, row_of
from dovetail.backends.verisilicon.lowering.tiny import enlarged
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.backends.verisilicon.views import FINEST_FOR_TABLES, scale_of
from dovetail.ir import DType, Quantization, TensorType, quantize_array

LISTED = frozenset(
    {"atan", "celu", "elu", "erf", "hard_sigmoid", "log", "mish", "reciprocal", "selu", "softsign", "tan"}
)
"""Functions whose tables ovxlib fills."""
_PROCESSED = LISTED | {"gelu", "hard_swish", "leaky_relu", "sigmoid", "square"}
"""Functions of the tensor processor for which a number beyond its floats is cut."""
_PLANE, _MATRIX = 3, 2
_INFINITE = 65536.0
"""What the tensor processor takes anything larger for."""


def exceeds_tables(view: NodeView) -> bool:
    """Tell whether ovxlib's tables would read garbage: more than 15 bits are behind the input's point.

    Single values have no table, and the stream processor's tables have no such limit.
    """
    kind, single = view.kind(0), all(size == 1 for size in view.shape(0)[-_PLANE:])
    if kind.quant is None or single or view.draft.part.generation is Generation.STREAM:
        return False
    fixed = kind.dtype is DType.I16 or view.draft.fixed_point
    return fixed and kind.quant.scale[0] < FINEST_FOR_TABLES


def exceeds_floats(view: NodeView) -> bool:
    """Tell whether the input is in fixed point and may come near the end of the tensor processor's floats."""
    kind = view.kind(0)
    if kind.quant is None or view.draft.part.generation is Generation.STREAM:
        return False
    fixed = kind.dtype is DType.I16 or view.draft.fixed_point
    return fixed and kind.quant.scale[0] >= _coarsest(kind)


def _coarsest(kind: TensorType) -> float:
    """Return the largest step with which all numbers stay below 65,536."""
    return _INFINITE / (kind.dtype.integer_range[1] + 1)


def read(view: NodeView, function: str) -> int:
    """Return the input as a function takes it."""
    if function == "sqrt":
        _check_root(view)
    if function == "sign":
        return enlarged(view)
    if function in _PROCESSED and exceeds_floats(view) and scale_of(view.kind(0)) > _coarsest(view.kind(0)):
        made = view.new(replace(view.kind(0), quant=Quantization((_coarsest(view.kind(0)),), (0,))))
        view.emit("data_convert", (view.input(0),), (made,))
        return made
    return for_table(view) if function in LISTED else view.input(0)


def for_table(view: NodeView) -> int:
    """Return the input with at most 15 bits behind the point."""
    if not exceeds_tables(view):
        return view.input(0)
    made = view.new(replace(view.kind(0), quant=Quantization((FINEST_FOR_TABLES,), (0,))))
    view.emit("data_convert", (view.input(0),), (made,))
    return made


def _check_root(view: NodeView) -> None:
    """Refuse bytes in fixed point that the stream processor's table of roots does not take.

    One of what is below 0 ends the simulator, and so does any where the network has another table.
    """
    stream, kind = view.draft.part.generation is Generation.STREAM, view.kind(0)
    view.need(
        not (stream and kind.dtype is DType.I8 and view.draft.fixed_point),
        "roots of bytes in dynamic fixed point, which end the simulator (affine bytes and 16 bits are possible)",
    )


def spread(view: NodeView, index: int, tensor: int, *, fixed: bool = True) -> int:
    """Return a constant of one element as a row of equal ones, `fixed`: in fixed point; any other tensor as it is."""
    kind, made = view.kind(index), view.made_shape()
    value = view.graph.constants.get(view.node.inputs[index])
    affine = kind.dtype is not DType.I16 and not view.draft.fixed_point
    if value is None or kind.quant is None or (fixed and affine):
        return tensor
    if math.prod(kind.static_shape or ()) != 1 or math.prod(made) == 1:
        return tensor
    shape = row_of(made)
    return view.hold(np.full(shape, value.reshape(-1)[0]), replace(kind, shape=shape))


def negate(view: NodeView) -> None:
    """Emit the product with -1."""
    view.emit("mul", (view.input(0), number(view, -1.0, 1.0, view.shape(0))), (view.output(),))


def absolute(view: NodeView) -> None:
    """Emit the larger of the input and its product with -1."""
    turned = view.new(view.made())
    view.emit("mul", (view.input(0), number(view, -1.0, 1.0, view.shape(0))), (turned,))
    view.emit("maximum", (view.input(0), turned), (view.output(),))


def leaky(view: NodeView, slope: float) -> None:
    """Emit the larger of the input and its product with a slope from 0 to 1."""
    held = number(view, slope, 1.0 / (view.kind(0).dtype.integer_range[1] + 1), view.shape(0))
    product = view.new(view.made())
    view.emit("mul", (view.input(0), held), (product,))
    view.emit("maximum", (view.input(0), product), (view.output(),))


def hard_swish(view: NodeView) -> None:
    """Emit the product with a hard sigmoid, whose table ends nothing."""
    kind = view.kind(0)
    gate = view.new(replace(kind, quant=Quantization((2.0 / (kind.dtype.integer_range[1] + 1),), (0,))))
    view.emit("hard_sigmoid", (read(view, "hard_sigmoid"),), (gate,), (), (1.0 / 6.0, 0.5))
    view.emit("mul", (view.input(0), gate), (view.output(),))


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
