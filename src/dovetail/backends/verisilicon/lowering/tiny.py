"""Bytes with steps so small that the vendor's own shader kernels take them for plain integers.

A kernel of ovxlib reads such a tensor as if its step were 1 and its zero point 0: with steps up to 1e-8, right with
2e-8, measured of Sign, PRelu and CumSum on V853, A311D, T527, i.MX 8M Plus and A733, and of products of two tensors
where a shader computes them. Products with a number are the driver's and right with any steps, so what such a kernel
reads is multiplied by a power of two before, which loses nothing, and what it gives is divided by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dovetail.backends.verisilicon.lowering.numbers import number
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.ir import DType, Quantization, TensorType

_TINIEST = 1e-7
_FINEST_RESPONSE = 2.0**-15
_ENLARGED_BITS = 8
"""What is enlarged has steps of about as many bits behind the point."""


def enlarged(view: NodeView) -> int:
    """Return the first input multiplied until its steps are no longer tiny."""
    factor = _factor(view.kind(0))
    return view.input(0) if factor == 1.0 else _multiplied(view, view.input(0), view.kind(0), factor)


def emit_enlarged(view: NodeView, kind: str, others: Sequence[int], ints: Sequence[int]) -> None:
    """Emit an operator that gives twice as much where its first input is twice as much."""
    made = view.made()
    factor = max(_factor(view.kind(0)), _factor(made))
    if factor == 1.0:
        view.emit(kind, (view.input(0), *others), (view.output(),), ints)
        return
    data, result = _multiplied(view, view.input(0), view.kind(0), factor), view.new(_times(made, factor))
    view.emit(kind, (data, *others), (result,), ints)
    view.emit("mul", (result, _power(view, 1.0 / factor, view.made())), (view.output(),))


def emit_power(view: NodeView, kind: str, out: TensorType, made: int, degree: int, ints: Sequence[int]) -> None:
    """Emit a product of `degree` elements of the first input: 2^degree times as much where that is twice as much."""
    wanted = _factor(out)
    if wanted == 1.0:
        view.emit(kind, (view.input(0),), (made,), ints)
        return
    factor = math.ldexp(1.0, -(-int(math.log2(wanted)) // degree))
    data, result = _multiplied(view, view.input(0), view.kind(0), factor), view.new(_times(out, factor**degree))
    view.emit(kind, (data,), (result,), ints)
    view.emit("mul", (result, _power(view, factor**-degree, out)), (made,))


def emit_response(view: NodeView, size: int, alpha: float, beta: float, bias: float) -> None:
    """Emit local response normalisation; the tensor processor takes finer steps than 2^-15 in fixed point for 0."""
    data = view.kind(0)
    fixed = data.dtype is DType.I16 or view.draft.fixed_point
    factor = _FINEST_RESPONSE / data.quant.scale[0] if fixed and data.quant is not None else 1.0
    if factor <= 1.0:
        view.emit("lrn", (view.input(0),), (view.output(),), (size, 2), (alpha, beta, bias))
        return
    larger, result = _multiplied(view, view.input(0), data, factor), view.new(_times(view.made(), factor))
    view.emit("lrn", (larger,), (result,), (size, 2), (alpha / (factor * factor), beta, bias))
    view.emit("mul", (result, _power(view, 1.0 / factor, view.made())), (view.output(),))


def emit_product(view: NodeView, first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Emit a product of two tensors of some shapes, one or both of which are enlarged; tell whether that was needed."""
    made, kinds = view.made(), (view.kind(0), view.kind(1))
    one, other = _factor(kinds[0]), _factor(kinds[1])
    one = max(one, _factor(made) / other)
    if one == other == 1.0:
        return False
    factors = (one, other)
    read = (
        view.input(index) if factor == 1.0 else _multiplied(view, view.input(index), kinds[index], factor)
        for index, factor in enumerate(factors)
    )
    data, operand = (view.reshaped(tensor, shape) for tensor, shape in zip(read, (first, second), strict=True))
    result = view.new(_times(made, one * other))
    view.emit("matmul", (data, operand), (result,), (0, 0))
    view.emit("mul", (result, _power(view, 1.0 / (one * other), made)), (view.output(),))
    return True


def has_tiny_steps(kind: TensorType) -> bool:
    """Tell whether affine bytes have steps that those kernels do not read."""
    return kind.quant is not None and kind.dtype in (DType.I8, DType.U8) and 0.0 < kind.quant.scale[0] < _TINIEST


def _factor(kind: TensorType) -> float:
    """Return the power of two by which a tensor is enlarged; 1 where it need not be."""
    if kind.quant is None or not has_tiny_steps(kind):
        return 1.0
    return math.ldexp(1.0, -_ENLARGED_BITS - math.frexp(kind.quant.scale[0])[1])


def _times(kind: TensorType, factor: float) -> TensorType:
    assert kind.quant is not None
    return replace(kind, quant=Quantization((kind.quant.scale[0] * factor,), kind.quant.zero_point))


def _power(view: NodeView, value: float, of: TensorType) -> int:
    """Return a power of two as an operand of a tensor."""
    return number(view, value, value, of.static_shape or ())


def _multiplied(view: NodeView, tensor: int, kind: TensorType, factor: float) -> int:
    made = view.new(_times(kind, factor))
    view.emit("mul", (tensor, _power(view, factor, kind)), (made,))
    return made
