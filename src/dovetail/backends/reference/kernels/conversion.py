"""Casts and the explicit quantisation operators of ONNX, with parameters as inputs."""

from __future__ import annotations

import numpy as np

from dovetail.backend.arithmetic import Accumulator
from dovetail.backends.reference.kernels.call import Call, Kernels, axis_of, exact_matmul
from dovetail.backends.reference.kernels.convolution import KERNELS as CONVOLUTION
from dovetail.backends.reference.kernels.pairs import convolution_losses, product_losses
from dovetail.ir import AnyArray


def _cast(call: Call) -> tuple[AnyArray, ...]:
    """Leave rounding to a float type to the interpreter, which stores each output in its declared type."""
    declared = call.output_types[0]
    if declared is None or declared.is_float:
        return (call.x,)
    return (call.x.astype(declared.carrier),)


def _spread(call: Call, values: AnyArray, rank: int, sizes: tuple[int, ...]) -> AnyArray:
    """Shape parameters to broadcast: one, one an index of `axis`, or one a block of `block_size` along it."""
    if values.size == 1:
        return values.reshape(())
    axis = axis_of(call.node.integer("axis", 1), rank)
    block = call.node.integer("block_size", 0)
    if block:
        return np.take(np.repeat(values, block, axis=axis), range(sizes[axis]), axis=axis)
    shape = [1] * rank
    shape[axis] = -1
    return values.reshape(shape)


def _saturate(steps: AnyArray, dtype: np.dtype[np.generic]) -> AnyArray:
    info = np.iinfo(dtype)  # type: ignore[type-var]
    return np.asarray(np.clip(steps, info.min, info.max)).astype(dtype)


def _quantize(call: Call) -> tuple[AnyArray, ...]:
    """Return `saturate(rint(x / scale) + zero_point)` with the division in float32."""
    x = call.x
    scale = _spread(call, call.input(1), x.ndim, x.shape).astype(np.float32)
    ratio = np.divide(x.astype(np.float32), scale)
    zero = call.optional(2)
    offset = 0 if zero is None else _spread(call, zero, x.ndim, x.shape).astype(np.float64)
    declared = call.output_types[0]
    dtype = zero.dtype if zero is not None else np.dtype(np.uint8) if declared is None else declared.carrier
    return (_saturate(np.asarray(np.rint(ratio).astype(np.float64) + offset), dtype),)


def _dequantize(call: Call) -> tuple[AnyArray, ...]:
    x, zero = call.x.astype(np.int64), call.optional(2)
    if zero is not None:
        x = np.asarray(x - _spread(call, zero, x.ndim, x.shape).astype(np.int64))
    scale = _spread(call, call.input(1), x.ndim, x.shape).astype(np.float32)
    return (np.asarray(x.astype(np.float32) * scale),)


def _dynamic_quantize(call: Call) -> tuple[AnyArray, ...]:
    x = call.x.astype(np.float32)
    lowest = np.minimum(x.min(initial=0.0), np.float32(0))
    highest = np.maximum(x.max(initial=0.0), np.float32(0))
    scale = np.float32((highest - lowest) / np.float32(255)) or np.float32(1)
    zero = np.clip(np.rint(-lowest / scale), 0, 255)
    stored = _saturate(np.rint(x / scale) + zero, np.dtype(np.uint8))
    return stored, np.asarray(scale, np.float64), np.asarray(zero, np.uint8)


def _requantize(acc: AnyArray, multiplier: AnyArray, zero: AnyArray) -> AnyArray:
    steps = np.rint(acc.astype(np.float64) * multiplier) + zero.astype(np.float64)
    return _saturate(np.asarray(steps), zero.dtype)


def _centre(stored: AnyArray, zero: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    return np.asarray(stored.astype(np.int64) - (zero.reshape(shape) if zero.size > 1 else zero.reshape(())))


def _qlinear_conv(call: Call) -> tuple[AnyArray, ...]:
    """Convolve integers; inputs are x, s_x, z_x, w, s_w, z_w, s_y, z_y, bias at scale s_x * s_w."""
    weight = call.input(3)
    x = _centre(call.input(0), call.input(2).astype(np.int64), ())
    lead = (-1, *(1,) * (weight.ndim - 1))
    w = _centre(weight, call.input(5).astype(np.int64), lead)
    bias = call.optional(8)
    inner = Call(call.node, (x, w, None if bias is None else bias.astype(np.int64)), call.output_types)
    (acc,) = CONVOLUTION["Conv"](inner)
    if call.accumulator is Accumulator.PAIRS:
        acc = acc + convolution_losses(call.node, call.input(0), weight, int(call.input(2).reshape(())))
    multiplier = call.input(1).reshape(()) * call.input(4) / call.input(6).reshape(())
    spread = (-1, *(1,) * (weight.ndim - 2))
    multiplier = multiplier.reshape(spread) if multiplier.size > 1 else multiplier.reshape(())
    return (_requantize(acc, multiplier, call.input(7).reshape(())),)


def _qlinear_matmul(call: Call) -> tuple[AnyArray, ...]:
    """Multiply integers; inputs are a, s_a, z_a, b, s_b, z_b, s_y, z_y (rows of a or columns of b may differ)."""

    def rows(value: AnyArray) -> AnyArray:
        return value.reshape(()) if value.size == 1 else value[..., None] if value.ndim == 1 else value

    def columns(value: AnyArray) -> AnyArray:
        return value.reshape(()) if value.size == 1 else value

    left = np.asarray(call.input(0).astype(np.int64) - rows(call.input(2)).astype(np.int64))
    right = np.asarray(call.input(3).astype(np.int64) - columns(call.input(5)).astype(np.int64))
    multiplier = np.asarray(rows(call.input(1)) * columns(call.input(4)) / call.input(6).reshape(()))
    acc = exact_matmul(left, right)
    if call.accumulator is Accumulator.PAIRS:
        acc = acc + product_losses(call.input(0), call.input(3))
    return (_requantize(acc, multiplier, call.input(7).reshape(())),)


KERNELS: Kernels = {
    "Cast": _cast,
    "CastLike": _cast,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}
