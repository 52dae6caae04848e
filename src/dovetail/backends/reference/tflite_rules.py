"""TFLite's integer kernels, step by step as its reference kernels do them.

Where an operator has no rule here, the exact rule or real arithmetic holds. Float32 products are on purpose: TFLite
multiplies scales as floats where it has one scale for the weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dovetail.backends.reference.fixed_point import divide_rounded, multiply_32, multiply_64
from dovetail.backends.reference.kernels import KERNELS, Call
from dovetail.backends.reference.kernels.pooling import window_sums
from dovetail.backends.reference.storing import first_zero_point, single_scale
from dovetail.backends.reference.tflite_fixed import divide, hard_swish
from dovetail.backends.reference.tflite_tables import logistic_16, softmax_8, softmax_16, tanh_16
from dovetail.ir import AnyArray, DType, Node, TensorType

Types = Sequence[TensorType | None]
Rule = Callable[[Node, Types, TensorType, Sequence[AnyArray]], AnyArray]
"""Takes a node, its inputs' types, its output's type and the stored inputs; returns the stored output."""

_CHANNEL_AXIS = {"Conv": 1, "ConvTranspose": 1, "MatMul": -1}
_8_BIT = (DType.I8, DType.U8)
_QUANTIZED = (*_8_BIT, DType.I16)


def tflite_rule(node: Node, types: Types, output: TensorType) -> Rule | None:
    """Return how TFLite computes a node whose first input and output are quantised per tensor, or None."""
    first = types[0] if types else None
    if node.domain not in ("", "dovetail") or first is None or first.quant is None or output.quant is None:
        return None
    if output.dtype not in _QUANTIZED or first.quant.per_channel or output.quant.per_channel:
        return None
    rule = _RULES.get(node.op) if _has_rule(node, output.dtype) else None
    if rule is None or any(kind is not None and kind.quant is None for kind in types[: _READS.get(node.op, 1)]):
        return None
    return rule


def quantize_as_tflite(real: AnyArray, output: TensorType) -> AnyArray:
    """Return stored integers of float32 reals: divided in float32, halves away from zero; what is no number gives 0."""
    steps = np.nan_to_num(real / single_scale(output)[0], nan=0.0, posinf=2.0**30, neginf=-(2.0**30))
    away = np.copysign(np.floor(np.abs(steps.astype(np.float64)) + 0.5), steps)
    return _saturated(np.clip(away, -(2.0**30), 2.0**30), output)


def _has_rule(node: Node, stored: DType) -> bool:
    """Tell whether the rule of an operator holds for this node and type."""
    if node.op == "Resize":
        return node.text("mode", "nearest") == "linear"
    return stored in _STORED.get(node.op, _QUANTIZED)


def _centred(stored: AnyArray, kind: TensorType | None) -> AnyArray:
    assert kind is not None
    assert kind.quant is not None
    return np.asarray(stored.astype(np.int64) - kind.quant.zero_point_array(stored.ndim))


def _saturated(steps: AnyArray, output: TensorType) -> AnyArray:
    moved = np.asarray(steps, np.int64) + first_zero_point(output)
    return np.asarray(np.clip(moved, *output.dtype.integer_range)).astype(output.dtype.carrier)


def _accumulate(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    centred = tuple(_centred(value, kind) for value, kind in zip(values, types, strict=True))
    (acc,) = KERNELS[node.op](Call(node, centred, (None,)))
    weight = single_scale(types[1])
    single = weight.size == 1 and (node.op == "MatMul" or output.dtype is DType.U8)
    if single:
        scale = np.asarray(single_scale(types[0]) * weight, np.float64)
    else:
        scale = single_scale(types[0]).astype(np.float64) * weight.astype(np.float64)
    multiplier = scale / single_scale(output).astype(np.float64)
    if multiplier.size > 1:
        shape = [1] * acc.ndim
        shape[_CHANNEL_AXIS[node.op]] = -1
        multiplier = multiplier.reshape(shape)
    else:
        multiplier = multiplier.reshape(())
    narrow = len(types) > 2 and types[2] is not None and types[2].dtype is DType.I32
    multiply = multiply_64 if output.dtype is DType.I16 and not narrow else multiply_32
    return _saturated(multiply(acc, multiplier), output)


def _sum(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    """Add or subtract on a common finer scale: 20 more bits, 15 for 16-bit values."""
    left = 15 if output.dtype is DType.I16 else 20
    scales = [float(single_scale(kind)[0]) for kind in types[:2]]
    twice = 2 * max(scales)
    parts = [
        multiply_32(_centred(value, kind) << left, np.asarray(scale / twice))
        for value, kind, scale in zip(values, types, scales, strict=False)
    ]
    total = parts[0] + parts[1] if node.op == "Add" else parts[0] - parts[1]
    return _saturated(multiply_32(total, np.asarray(twice / ((1 << left) * float(single_scale(output)[0])))), output)


def _product(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    acc = _centred(values[0], types[0]) * _centred(values[1], types[1])
    return _saturated(
        multiply_32(acc, (single_scale(types[0]) * single_scale(types[1]) / single_scale(output))[0]), output
    )


def _rescale(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    if types[0] is not None and types[0].quant == output.quant and types[0].dtype is output.dtype:
        return values[0]
    ratio = single_scale(types[0]).astype(np.float64) / single_scale(output).astype(np.float64)
    return _saturated(multiply_32(_centred(values[0], types[0]), ratio[0]), output)


def _relu(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    scaled = _rescale(node, types, output, values)
    return np.asarray(np.maximum(scaled, np.asarray(first_zero_point(output), scaled.dtype)))


def _leaky_relu(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    x = _centred(values[0], types[0])
    ratio = (single_scale(types[0]) / single_scale(output))[0]
    slope = (single_scale(types[0]) * np.float32(node.number("alpha", 0.01)) / single_scale(output))[0]
    return _saturated(np.where(x >= 0, multiply_32(x, ratio), multiply_32(x, slope)), output)


def _p_relu(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    x, slope = _centred(values[0], types[0]), _centred(values[1], types[1])
    ratio = (single_scale(types[0]) / single_scale(output))[0]
    product = (single_scale(types[0]) * single_scale(types[1]) / single_scale(output))[0]
    return _saturated(np.where(x >= 0, multiply_32(x, ratio), multiply_32(x * slope, product)), output)


def _hard_swish(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    return _saturated(
        hard_swish(_centred(values[0], types[0]), single_scale(types[0])[0], single_scale(output)[0]), output
    )


def _quotient(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    left, right = (_centred(value, kind) for value, kind in zip(values, types, strict=True))
    ratio = single_scale(types[0])[0] / (single_scale(types[1])[0] * single_scale(output)[0])
    return _saturated(divide(left, right, float(ratio)), output)


def _softmax(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    axis = node.integer("axis", -1) % values[0].ndim
    last = np.moveaxis(values[0], axis, -1)
    scale = float(single_scale(types[0])[0])
    if output.dtype is DType.I16:
        steps = softmax_16(last, scale)
    else:
        steps = softmax_8(last, scale, float(single_scale(output)[0]), first_zero_point(output), output.dtype)
    return np.moveaxis(steps, -1, axis)


def _logistic(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    return logistic_16(values[0], float(single_scale(types[0])[0]))


def _tanh(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    return tanh_16(values[0], float(single_scale(types[0])[0]))


def _average(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    """Average stored integers as they are: TFLite demands one scale on both sides."""
    total, count = window_sums(Call(node, (values[0].astype(np.int64),), (None,)))
    whole = divide_rounded(total, np.asarray(count, np.int64))
    return np.asarray(np.clip(whole, *output.dtype.integer_range)).astype(output.dtype.carrier)


def _mean(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    """Average with a multiplier that holds the count: q of `s_x / s_y`, made wider, is divided by it."""
    total = _total(node, types, values)
    count = values[0].size // max(total.size, 1)
    ratio = float(single_scale(types[0])[0]) / float(single_scale(output)[0])
    return _saturated(multiply_32(total, np.asarray(_shared(ratio, count))), output)


def _total_of_bytes(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    """Sum in float32: the kernel scales the sum of stored integers and takes the zero points off it."""
    (total,) = KERNELS["ReduceSum"](Call(node, (values[0].astype(np.int64), *values[1:]), (None,)))
    count = values[0].size // max(total.size, 1)
    scale = single_scale(types[0])[0] / single_scale(output)[0]
    bias = np.float32(-first_zero_point(types[0])) * scale * np.float32(count)
    real = total.astype(np.float32) * scale + bias
    return _saturated(np.copysign(np.floor(np.abs(real) + np.float32(0.5)), real), output)


def _shared(ratio: float, count: int) -> float:
    """Return the multiplier of an average: TFLite divides q, shifted as far as 32 bits allow, by the count."""
    mantissa, shift = np.frexp(ratio)
    q = int(np.floor(mantissa * 2.0**31 + 0.5))
    bits = min(32, 63 - (count.bit_length() - 1 + 1) if count > 1 else 31)
    bits = min(bits, 31 + int(shift))
    return float(((q << max(bits, 0)) // count) * 2.0 ** (-31 - max(bits, 0)) * 2.0 ** int(shift))


def _resize(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    """Interpolate stored integers: with weights of 10 bits, 8-bit unsigned ones in float32."""
    x = values[0]
    sizes = (output.static_shape or x.shape)[2:]
    rows, columns = (_places(node, int(x.shape[2 + axis]), sizes[axis], output.dtype) for axis in range(2))
    total: AnyArray = np.zeros((*x.shape[:2], *sizes), rows[0][1].dtype)
    # The order of float additions is the kernel's.
    for column, column_weight in columns:
        for row, row_weight in rows:
            picked = x[:, :, row][:, :, :, column].astype(total.dtype)
            total = total + picked * row_weight[:, None] * column_weight
    if output.dtype is DType.U8:
        return np.asarray(np.floor(total + np.float32(0.5))).astype(np.uint8)
    moved = total + np.where(total > 0, 1 << 19, -(1 << 19))
    return np.where(moved >= 0, moved >> 20, -((-moved) >> 20)).astype(output.dtype.carrier)


def _places(node: Node, size: int, length: int, dtype: DType) -> list[tuple[AnyArray, AnyArray]]:
    """Return the two source indices of every target index with their weights."""
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    at = np.arange(length)
    aligned = mode == "align_corners" and length > 1
    if dtype is DType.U8:
        scale = np.float32((size - 1) / (length - 1)) if aligned else np.float32(size / length)
        place = at.astype(np.float32) * scale
        if mode == "half_pixel":
            place = (at.astype(np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
        low = np.maximum(np.floor(place), 0).astype(np.int64)
        high = np.minimum(np.ceil(place), size - 1).astype(np.int64)
        part = place - low.astype(np.float32)
        return [(low, np.float32(1) - part), (high, part)]
    unit = 1 << 10
    scale_10 = (
        (unit * (size - 1) + (length - 1) // 2) // (length - 1) if aligned else (unit * size + length // 2) // length
    )
    place_10 = at * scale_10 + (scale_10 // 2 - (1 << 9) if mode == "half_pixel" else 0)
    low = np.maximum(np.where(place_10 >= 0, place_10 // unit, -(-place_10 // unit)), 0)
    high = np.minimum(-(-place_10 // unit), size - 1)
    part = place_10 - unit * low
    return [(low, unit - part), (np.maximum(high, 0), part)]


def _total(node: Node, types: Types, values: Sequence[AnyArray]) -> AnyArray:
    centred = _centred(values[0], types[0])
    if node.op == "GlobalAveragePool":
        return np.asarray(centred.sum(axis=tuple(range(2, centred.ndim)), keepdims=True))
    (total,) = KERNELS["ReduceSum"](Call(node, (centred, *values[1:]), (None,)))
    return total


_RULES: Mapping[str, Rule] = {
    "Add": _sum,
    "AveragePool": _average,
    "Conv": _accumulate,
    "ConvTranspose": _accumulate,
    "Div": _quotient,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "MatMul": _accumulate,
    "Mul": _product,
    "PRelu": _p_relu,
    "ReduceMean": _mean,
    "ReduceSum": _total_of_bytes,
    "Relu": _relu,
    "Requantize": _rescale,
    "Resize": _resize,
    "Sigmoid": _logistic,
    "Softmax": _softmax,
    "Sub": _sum,
    "Tanh": _tanh,
}
_READS = {"Add": 2, "Conv": 3, "ConvTranspose": 3, "Div": 2, "MatMul": 2, "Mul": 2, "PRelu": 2, "Sub": 2}
"""How many inputs must be quantised for the rule to hold."""
_STORED = {
    "Div": (DType.U8,),
    "HardSwish": _8_BIT,
    "ReduceSum": _8_BIT,
    "Sigmoid": (DType.I16,),
    "Tanh": (DType.I16,),
}
"""The stored types of operators whose rule does not hold for all."""
