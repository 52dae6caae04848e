"""Scales and zero points from ranges.

Formulas as in Acuity: asymmetric: the range is widened to contain 0, scale = (max - min) / (2^n - 1),
zero point = round(q_min - min / scale); symmetric: scale = max|x| / (2^(n-1) - 1);
dynamic fixed point: fl = (n - 1) - ceil(log2 max|x|), scale = 2^-fl, fl at most 48.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dovetail.errors import QuantizeError
from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.precision import NumberFormat
from dovetail.ir.types import Quantization
from dovetail.quantize.ranges import Range

_TINY = float(np.finfo(np.float32).tiny)
_BIAS_LIMITS = {DType.I32: 2.0**30, DType.I64: 2.0**46}
"""A factor of two below what an accumulator holds: 32 bits, and 48 of the 64 that a wide bias is stored in.

Six of VeriSilicon's parts make garbage of wider ones, from 2^47 on.
"""
_MOST_FRACTION_BITS, _MOST_SHIFT = 48, 126
"""Of dynamic fixed point, and how far it is shifted up.

VeriSilicon's ReLU in fixed point makes garbage of 49 to 63 bits behind the point, other functions of 62 and more. With
48 all that is finer than 4e-15 is lost, of tensors that nowhere reach 1.2e-10 in 16 bits or 4.6e-13 in 8.
"""


@lru_cache(maxsize=1 << 14)
def choose_quantization(limits: Range, form: NumberFormat) -> Quantization:
    """Return the scale and zero point of a per-tensor format for values in a range.

    A tensor that is always 0 gets scale 1. Raises QuantizeError for limits that are not finite.
    """
    low, high = min(limits.low, 0.0), max(limits.high, 0.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise QuantizeError(f"a range of [{limits.low}, {limits.high}] cannot be quantised.")
    lowest, highest = form.dtype.integer_range
    largest = max(-low, high)
    if largest == 0.0:
        return Quantization((1.0,), (0,))
    if form.power_of_two:
        return Quantization((_fixed_point_scale(largest, form.dtype),), (0,))
    if form.symmetric:
        return Quantization((_single(largest / highest),), (0,))
    scale = _single((high - low) / (highest - lowest))
    zero_point = int(np.clip(np.rint(lowest - low / scale), lowest, highest))
    return Quantization((scale,), (zero_point,))


def choose_weight_quantization(
    weight: AnyArray, form: NumberFormat, channel_axis: int, bias_floor: AnyArray | None = None
) -> Quantization:
    """Return the scales of a constant weight.

    `bias_floor` is, per channel (or one number), the smallest scale that keeps the bias within its integers.
    """
    if not form.per_channel or not 0 <= channel_axis < weight.ndim:
        per_tensor = NumberFormat(form.dtype, form.symmetric, power_of_two=form.power_of_two)
        limits = Range(float(weight.min(initial=0.0)), float(weight.max(initial=0.0)))
        quant = choose_quantization(limits, per_tensor)
        floor = 0.0 if bias_floor is None else float(bias_floor.max(initial=0.0))
        return quant if floor <= quant.scale[0] else _widened(floor, limits, per_tensor)
    others = tuple(axis for axis in range(weight.ndim) if axis != channel_axis)
    largest = np.abs(weight.astype(np.float64)).max(axis=others, initial=0.0)
    scales = largest / form.dtype.integer_range[1]
    if bias_floor is not None:
        scales = np.maximum(scales, bias_floor)
    scales = np.where(scales == 0.0, 1.0, np.maximum(scales, _TINY))
    return Quantization(tuple(_single(scale) for scale in scales), (0,) * len(scales), channel_axis)


def _widened(floor: float, limits: Range, form: NumberFormat) -> Quantization:
    """Return the quantisation with a scale of at least a floor; its zero point still holds 0 and the lower limit."""
    if form.power_of_two:
        return Quantization((2.0 ** math.ceil(math.log2(floor)),), (0,))
    scale = _single(floor)
    if form.symmetric:
        return Quantization((scale,), (0,))
    lowest, highest = form.dtype.integer_range
    return Quantization((scale,), (int(np.clip(np.rint(lowest - min(limits.low, 0.0) / scale), lowest, highest)),))


def bias_scale_floor(bias: AnyArray, input_scale: float, dtype: DType) -> AnyArray:
    """Return per channel the smallest weight scale at which the bias fits into an accumulator with room to spare.

    The scale of the bias, `s_x * s_w`, is a normal float32 then, whatever weights a dead channel has left. Channels are
    the last axis of a bias.
    """
    largest = np.abs(bias.astype(np.float64)).max(axis=tuple(range(bias.ndim - 1)))
    smallest = np.maximum(largest / _BIAS_LIMITS[dtype], 2.0 * _TINY)
    floor: AnyArray = smallest / input_scale
    return floor


def quantize_bias(
    bias: AnyArray, dtype: DType, input_scale: float, weight: Quantization
) -> tuple[AnyArray, Quantization]:
    """Return the stored bias and its quantisation: scale `s_x * s_w`, zero point 0.

    With a scale for each channel there is a value for each channel, along the last axis.
    """
    scales = tuple(_single(input_scale * scale) for scale in weight.scale)
    axis = None
    if len(scales) > 1:
        bias = np.broadcast_to(bias, (*bias.shape[:-1], len(scales)))
        axis = bias.ndim - 1
    steps = np.rint(bias.astype(np.float64) / np.asarray(scales, dtype=np.float64))
    # The largest int64 is not a double; stay below it.
    limit = min(float(dtype.integer_range[1]), 2.0**62)
    stored: AnyArray = np.clip(steps, -limit, limit).astype(dtype.carrier)
    return stored, Quantization(scales, (0,) * len(scales), axis)


def _fixed_point_scale(largest: float, dtype: DType) -> float:
    bits = 8 * dtype.size_bytes
    fraction = (bits - 1) - math.ceil(math.log2(largest))
    return 2.0 ** -max(-_MOST_SHIFT, min(_MOST_FRACTION_BITS, fraction))


def _single(value: float) -> float:
    return max(float(np.float32(value)), _TINY)
