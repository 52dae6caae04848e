"""Operators made of comparisons and choices, and others that the vendor has only in parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.lowering.elementwise import (
    Binary,
    aligned,
    check_same_kind,
    check_same_kind_of,
    lower_sum,
)
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.ir import AnyArray, DType, Quantization, TensorType, quantize_array

_MORE, _LESS, _OR = 0, 2, 1
"""Codes of the shim's comparisons and logical operators."""
_OR_EQUAL = 1
"""Makes another comparison of one: at least, at most."""


def _stored(view: NodeView, value: AnyArray, like: TensorType) -> int:
    """Return the id of a constant of reals, stored as another tensor is."""
    shape = tuple(value.shape)
    if like.quant is None:
        return view.hold(value.astype(like.dtype.carrier), TensorType(like.dtype, shape))
    made = quantize_array(value.astype(np.float64), like.dtype, like.quant)
    return view.hold(made, TensorType(like.dtype, shape, like.quant))


def _beyond(view: NodeView, bound: float, code: int) -> int:
    """Return the id of the truth of `x > bound` or `x < bound`; integers are compared with the step at the bound.

    Where the input does not reach the bound, its own last step is compared with: all or none of it lies beyond.
    """
    kind, shape = view.kind(0), view.shape(0)
    ones = (1,) * max(len(shape), 1)
    if kind.quant is None:
        edge = view.hold(np.full(ones, bound, kind.dtype.carrier), TensorType(kind.dtype, ones))
    else:
        steps = bound / float(kind.quant.scale[0])
        step = (math.floor(steps) if code == _MORE else math.ceil(steps)) + kind.quant.zero_point[0]
        low, high = kind.dtype.integer_range
        if (code == _MORE and step < low) or (code == _LESS and step > high):
            code += _OR_EQUAL
        step = min(max(step, low), high)
        edge = view.hold(np.full(ones, step, kind.dtype.carrier), TensorType(kind.dtype, ones, kind.quant))
    truth = view.new(TensorType(DType.BOOL, shape))
    view.emit("compare", (view.input(0), edge), (truth,), (code,))
    return truth


def _choose(view: NodeView, truth: int) -> None:
    """Emit the input where something is true, and 0 elsewhere."""
    zero = _stored(view, np.zeros((1,) * max(len(view.shape(0)), 1)), view.made())
    view.emit("select", (truth, view.stored_as(0, view.made()), zero), (view.output(),))


def lower_thresholded_relu(view: NodeView) -> None:
    """Lower ThresholdedRelu as a comparison and a choice."""
    check_same_kind_of(view, (0,))
    view.expect(view.shape(0))
    _choose(view, _beyond(view, view.node.number("alpha", 1.0), _MORE))


def lower_shrink(view: NodeView) -> None:
    """Lower Shrink without a bias as two comparisons and a choice."""
    check_same_kind_of(view, (0,))
    view.expect(view.shape(0))
    bound = view.node.number("lambd", 0.5)
    bias = view.node.number("bias", 0.0)
    view.need(bias == 0.0, f"bias={bias:g} (0 is possible)")
    view.need(bound >= 0.0, f"lambd={bound:g} (0 and more are possible)")
    sides = (_beyond(view, bound, _MORE), _beyond(view, -bound, _LESS))
    either = view.new(TensorType(DType.BOOL, view.shape(0)))
    view.emit("logical", sides, (either,), (_OR,))
    _choose(view, either)


def lower_trilu(view: NodeView) -> None:
    """Lower Trilu with a constant diagonal as a choice by a constant mask."""
    check_same_kind_of(view, (0,))
    sizes = view.shape(0)
    view.expect(sizes)
    view.need(len(sizes) >= 2, "a vector input")
    diagonal = view.whole(1) if view.has(1) else 0
    whole = np.ones(sizes, bool)
    upper = view.node.integer("upper", 1)
    mask = np.triu(whole, diagonal) if upper else np.tril(whole, diagonal)
    _choose(view, view.hold(mask, TensorType(DType.BOOL, sizes)))


def lower_mean(view: NodeView) -> None:
    """Lower Mean of one or two operands; more would be rounded in between.

    The sum has the steps of the mean at twice the width, so that halving it loses nothing.
    """
    if len(view.node.inputs) == 1:
        lower_sum(view)
        return
    check_same_kind(view)
    view.need(len(view.node.inputs) == 2, f"{len(view.node.inputs)} operands (two are possible)")
    made, quant = view.made(), view.made().quant
    wide, half = made, TensorType(made.dtype, ())
    if quant is not None:
        wide = replace(made, quant=Quantization((2.0 * quant.scale[0],), quant.zero_point))
        # 16 bits have powers of two as scales.
        half = TensorType(made.dtype, (), Quantization((0.5,), (0,)))
    total = view.new(wide)
    view.emit("add", aligned(view, (0, 1)), (total,))
    ones = np.full((1,) * max(len(view.made_shape()), 1), 0.5)
    view.emit("mul", (total, _stored(view, ones, half)), (view.output(),))


def lower_mod(view: NodeView) -> None:
    """Lower Mod of reals: the remainder has the sign of the dividend."""
    view.need(view.node.integer("fmod", 0) == 1, "fmod=0 is for integers")
    Binary("mod", (1,))(view)


CHOOSING: dict[str, Callable[[NodeView], None]] = {
    "Mean": lower_mean,
    "Mod": lower_mod,
    "Shrink": lower_shrink,
    "ThresholdedRelu": lower_thresholded_relu,
    "Trilu": lower_trilu,
}
