"""ONNX Runtime's integer kernels on 64-bit x86, step by step in float32 as they do them.

An operator that has an integer kernel there (a QLinear one) is computed by it, which is also what ONNX Runtime makes
of Q/DQ models; every other one is computed on float32 reals between a DequantizeLinear and a QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dovetail.backend.arithmetic import Accumulator
from dovetail.backends.reference.kernels import KERNELS, Call
from dovetail.backends.reference.kernels.pairs import accumulator_losses
from dovetail.backends.reference.kernels.pooling import averaging_window
from dovetail.backends.reference.kernels.window import slide
from dovetail.backends.reference.storing import first_zero_point, single_scale
from dovetail.ir import AnyArray, DType, Node, TensorType, dequantize_array, quantize_array

Types = Sequence[TensorType | None]
OrtRule = Callable[[Node, Types, TensorType, Sequence[AnyArray]], AnyArray]
"""Takes a node, its inputs' types, its output's type and the stored inputs; returns the stored output."""

_8_BIT = (DType.I8, DType.U8)
_CHANNEL_AXIS = {"Conv": 1, "Gemm": -1, "MatMul": -1}
_SPARE_BITS = 5
"""Bits that the table of exponentials leaves free for their sum."""


def ort_rule(node: Node, types: Types, output: TensorType, accumulator: Accumulator) -> OrtRule | None:
    """Return the integer kernel that ONNX Runtime has for a node of 8 bits, or None."""
    rule = None if node.domain else _RULES.get(node.op)
    reads = types[: _READS.get(node.op, 1)]
    if rule is None or not reads or output.quant is None or output.quant.per_channel or output.dtype not in _8_BIT:
        return None
    if any(kind is None or kind.quant is None or kind.dtype not in _8_BIT for kind in reads):
        return None
    if reads[0] is None or reads[0].dtype is not output.dtype or reads[0].quant is None or reads[0].quant.per_channel:
        return None
    if rule is _accumulate and accumulator is Accumulator.PAIRS:
        rule = _accumulate_in_pairs
    return rule if _fits(node, types) else None


def real_as_ort(stored: AnyArray, kind: TensorType) -> AnyArray:
    """Return what a DequantizeLinear gives, float32 in a float64; other tensors come as they are."""
    if kind.quant is not None:
        return np.asarray(dequantize_array(stored, kind.quant), np.float64)
    return stored.astype(np.float64) if kind.dtype.is_float else stored


def store_as_ort(real: AnyArray, kind: TensorType) -> AnyArray:
    """Return what a QuantizeLinear of float32 gives; a NaN becomes 0."""
    assert kind.quant is not None
    single = np.asarray(real).astype(np.float32)
    missing = np.isnan(single)
    stored = quantize_array(np.where(missing, np.float32(0), single), kind.dtype, kind.quant)
    return np.where(missing, 0, stored).astype(kind.dtype.carrier)


def _fits(node: Node, types: Types) -> bool:
    """Tell whether a kernel takes the node's other parameters."""
    if node.op == "Gemm" and (node.number("alpha", 1.0), node.number("beta", 1.0)) != (1.0, 1.0):
        return False
    if node.op in _CHANNEL_AXIS:
        bias = types[2] if len(types) > 2 else None
        return bias is None or bias.dtype is DType.I32
    return node.op != "AveragePool" or set(node.integers("dilations")) <= {1}


def _centred(stored: AnyArray, kind: TensorType | None) -> AnyArray:
    assert kind is not None
    if kind.quant is None:
        return stored.astype(np.int64)
    return np.asarray(stored.astype(np.int64) - kind.quant.zero_point_array(stored.ndim))


def _saturated(steps: AnyArray, output: TensorType) -> AnyArray:
    return np.asarray(np.clip(steps, *output.dtype.integer_range)).astype(output.dtype.carrier)


def _rounded(steps: AnyArray, output: TensorType) -> AnyArray:
    """Round float32 steps to even, then add the zero point."""
    return _saturated(np.rint(steps).astype(np.float64) + first_zero_point(output), output)


def _accumulate(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    return _scaled(node, types, output, _sums(node, types, values))


def _accumulate_in_pairs(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    return _scaled(node, types, output, _sums(node, types, values) + accumulator_losses(node, types, values))


def _sums(node: Node, types: Types, values: Sequence[AnyArray]) -> AnyArray:
    centred = tuple(_centred(value, kind) for value, kind in zip(values, types, strict=True))
    (acc,) = KERNELS[node.op](Call(node, centred, (None,)))
    return acc


def _scaled(node: Node, types: Types, output: TensorType, acc: AnyArray) -> AnyArray:
    multiplier = single_scale(types[0]) * single_scale(types[1]) / single_scale(output)
    shape = [1] * acc.ndim
    if multiplier.size > 1:
        shape[_CHANNEL_AXIS[node.op]] = -1
    return _rounded(acc.astype(np.float32) * multiplier.reshape(shape), output)


def _sum(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    """Add stored integers times ratios to one number that holds all zero points; products are not rounded (FMA)."""
    ratios = [(single_scale(kind) / single_scale(output))[0] for kind in types[:2]]
    zeros = [np.float32(first_zero_point(kind)) for kind in types[:2]]
    offset = _fused(np.asarray(ratios[0]), zeros[0], np.float32(ratios[1] * zeros[1]))
    total: AnyArray = np.asarray(np.float32(first_zero_point(output)) - offset)
    # One number beside a row goes into the constant first.
    for place in (0, 1) if _is_repeated(values[0], values[1]) else (1, 0):
        total = _fused(values[place].astype(np.float64), ratios[place], total)
    return _saturated(np.rint(total), output)


def _fused(a: AnyArray, b: np.float32, c: AnyArray | np.float32) -> AnyArray:
    """Return a * b + c, rounded once to float32: the product of 8 and 24 bits is exact in float64."""
    return np.asarray(np.asarray(a, np.float64) * np.float64(b) + np.asarray(c, np.float64)).astype(np.float32)


def _is_repeated(left: AnyArray, right: AnyArray) -> bool:
    """Tell whether the left operand is one number along the last axis on which the operands differ from ones."""
    rank = max(left.ndim, right.ndim)
    sizes = zip((1,) * (rank - left.ndim) + left.shape, (1,) * (rank - right.ndim) + right.shape, strict=True)
    kept = [pair for pair in sizes if pair != (1, 1)]
    return bool(kept) and kept[-1][0] == 1


def _product(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    acc = (_centred(values[0], types[0]) * _centred(values[1], types[1])).astype(np.float32)
    ratio = (single_scale(types[0]) * single_scale(types[1]) / single_scale(output))[0]
    return _saturated(np.rint(acc * ratio + np.float32(first_zero_point(output))), output)


def _average(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    """Average float32 reals, one after the other; the zero point is added before rounding."""
    if node.integers("kernel_shape") == values[0].shape[2:] and not any(node.integers("pads")):
        return _global_average(node, types, output, values)
    real = _centred(values[0], types[0]).astype(np.float32) * single_scale(types[0])[0]
    window, count = averaging_window(Call(node, (real,), (None,)))
    view = slide(real, window, 0)
    flat = view.reshape(*view.shape[: real.ndim], -1)
    total = np.add.accumulate(flat, axis=-1, dtype=np.float32)[..., -1]
    mean = (total / count.astype(np.float32)).astype(np.float32)
    return _saturated(np.rint(mean / single_scale(output)[0] + np.float32(first_zero_point(output))), output)


def _global_average(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    x = _centred(values[0], types[0])
    total = x.sum(axis=tuple(range(2, x.ndim)), keepdims=True)
    count = np.float32(x.size // max(total.size, 1))
    return _rounded(total.astype(np.float32) * (single_scale(types[0])[0] / (single_scale(output)[0] * count)), output)


def _leaky_relu(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    real = _centred(values[0], types[0]).astype(np.float32) * single_scale(types[0])[0]
    sloped = real * np.float32(node.number("alpha", 0.01))
    return _rounded(np.where(real >= 0, real, sloped) / single_scale(output)[0], output)


def _softmax(node: Node, types: Types, output: TensorType, values: Sequence[AnyArray]) -> AnyArray:
    """Share out float32 exponentials of a table whose top is as high as the sum allows."""
    axis = node.integer("axis", -1) % values[0].ndim
    last = np.moveaxis(values[0], axis, -1).astype(np.int64)
    scale = float(single_scale(types[0])[0])
    # The table's maximum is float32's over the count, less some bits, in steps of the scale above the largest input.
    highest = float(np.log(np.float32(np.finfo(np.float32).max) / np.float32(last.shape[-1])))
    lift = max(0.0, highest - _SPARE_BITS) / scale
    table = np.exp((np.arange(256, dtype=np.float64) - 255 + lift) * scale).astype(np.float32)
    grown = table[255 + last - last.max(axis=-1, keepdims=True)]
    total = np.add.accumulate(grown, axis=-1, dtype=np.float32)[..., -1:]
    steps = np.rint(grown * np.floor(np.float32(1.0) / single_scale(output)[0]) / total).astype(
        np.int64
    ) + first_zero_point(output)
    return np.moveaxis(_saturated(steps, output), -1, axis)


_RULES: Mapping[str, OrtRule] = {
    "Add": _sum,
    "AveragePool": _average,
    "Conv": _accumulate,
    "Gemm": _accumulate,
    "GlobalAveragePool": _global_average,
    "LeakyRelu": _leaky_relu,
    "MatMul": _accumulate,
    "Mul": _product,
    "Softmax": _softmax,
}
_READS = {"Add": 2, "Conv": 2, "Gemm": 2, "MatMul": 2, "Mul": 2}
"""How many inputs must be quantised in 8 bits for the rule to hold."""
