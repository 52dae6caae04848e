"""Slopes: LeakyRelu, and PRelu with one for each channel or for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.lowering import fine
from dovetail.backends.verisilicon.lowering.elementwise import Unary, alpha, check_same_kind
from dovetail.backends.verisilicon.lowering.tiny import emit_enlarged, has_tiny_steps
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.ir import AnyArray, DType, Quantization, TensorType, dequantize_array

_PLANE_AXES = 4


def lower_leaky_relu(view: NodeView) -> None:
    """Lower LeakyRelu; numbers that its floats do not hold are multiplied and compared."""
    slope, data = view.node.number("alpha", 0.01), view.kind(0)
    if _is_misjoined(view, slope) and data.quant is not None:
        check_same_kind(view)
        view.expect(view.shape(0))
        # The lowest byte, less the highest, is the slope.
        low, high = data.dtype.integer_range
        kind = TensorType(data.dtype, (1,) * len(view.shape(0)), Quantization((-slope / (high - low),), (high,)))
        single = np.full(kind.static_shape or (), low, data.dtype.carrier)
        _by_products(view, view.hold(single, kind), np.array(slope))
        return
    if not (0.0 <= slope <= 1.0 and fine.exceeds_floats(view)):
        Unary("leaky_relu", alpha(0.01))(view)
        return
    check_same_kind(view)
    view.expect(view.shape(0))
    fine.leaky(view, slope)


def _is_misjoined(view: NodeView, slope: float) -> bool:
    """Tell whether the compiler would join a LeakyRelu with a convolution, or a copy of one, to what it is not.

    A negative slope of bytes is garbage in newer parts, signed and unsigned: measured on V853, T527 and A733. In older
    ones signed bytes are a step off (A311D). Fixed point is right.
    """
    return slope < 0.0 and not view.draft.fixed_point and view.kind(0).dtype in (DType.I8, DType.U8)


def lower_prelu(view: NodeView) -> None:
    """Lower PRelu with a constant slope for each channel or for all.

    It has no form in dynamic fixed point, 16 bits or 8, nor of slopes with tiny steps: there it is spelt out.
    """
    check_same_kind(view)
    sizes, value, kind = view.shape(0), view.constant(1), view.kind(1)
    view.expect(sizes)
    view.need(len(sizes) >= 2, "a vector input")
    wide = (1,) * (len(sizes) - value.ndim) + value.shape
    channels = sizes[1]
    view.need(wide in ((1,) * len(sizes), (1, channels, *(1,) * (len(sizes) - 2))), "its slope is not per channel")
    slope = np.broadcast_to(value.reshape(-1), (channels,))
    apart = view.kind(0).quant is not None and (view.draft.fixed_point or has_tiny_steps(kind))
    # The vendor's compiler has no kernel for one slope and several samples, or for five axes.
    alone = channels == 1 and (sizes[0] > 1 or len(sizes) > _PLANE_AXES) and kind.quant is not None
    single = float(dequantize_array(slope, kind.quant)[0]) if alone and kind.quant is not None else 0.0
    if view.kind(0).dtype is DType.I16 or apart or _is_misjoined(view, single):
        assert kind.quant is not None
        spread = np.ascontiguousarray(slope).reshape(channels, *(1,) * (len(sizes) - 2))
        held = view.reshaped(view.hold(spread, replace(kind, shape=spread.shape)), (1, *spread.shape))
        _by_products(view, held, dequantize_array(spread, kind.quant))
        return
    if alone:
        view.emit("leaky_relu", (view.input(0),), (view.output(),), (), (single,))
        return
    axis = view.axis(1, len(sizes))
    # One slope for each index of one axis, whatever the rank of the data.
    shape = (channels, *(1,) * axis)
    held = view.hold(np.ascontiguousarray(slope).reshape(shape), replace(kind, shape=shape))
    emit_enlarged(view, "prelu", (held,), (axis,))


def _by_products(view: NodeView, held: int, slope: AnyArray) -> None:
    """Lower slopes as a product with them, and the larger of it and the value where they are from 0 to 1.

    Else values below 0 are multiplied, and those above 0 added to what that gives. `held` is the constant of them.
    """
    data, made = view.kind(0), view.made()
    sizes, one = view.shape(0), (1,) * len(view.shape(0))
    assert data.quant is not None
    product = view.new(replace(made, shape=sizes))
    if (slope >= 0).all() and (slope <= 1).all():
        view.emit("mul", (view.input(0), held), (product,))
        view.emit("maximum", (view.coarse(0), product), (view.output(),))
        return
    low, high = (view.new(replace(data, shape=sizes)) for _ in range(2))
    nothing = view.hold(np.full(one, data.quant.zero_point[0], data.dtype.carrier), replace(data, shape=one))
    view.emit("minimum", (view.input(0), nothing), (low,))
    view.emit("maximum", (view.input(0), nothing), (high,))
    view.emit("mul", (low, held), (product,))
    view.emit("add", (high, product), (view.output(),))
