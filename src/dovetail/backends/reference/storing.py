"""Reals to stored values and back, with the rounding of a target."""

from __future__ import annotations

import numpy as np

from dovetail.backend.arithmetic import Carrier, Rounding, Tie, ZeroPointOrder
from dovetail.ir import AnyArray, DType, Quantization, TensorType


def real_of(stored: AnyArray, kind: TensorType) -> AnyArray:
    """Return the real values of a tensor in float64; tensors that hold no reals come back as they are.

    `(q - zero_point) * scale` is exact in float64 for stored types of up to 16 bits.
    """
    if kind.quant is not None:
        centred = stored.astype(np.int64) - kind.quant.zero_point_array(stored.ndim)
        return np.asarray(centred * kind.quant.scale_array(stored.ndim))
    return stored.astype(np.float64) if kind.dtype.is_float else stored


def single_scale(kind: TensorType | None) -> AnyArray:
    """Return the scales of a quantised tensor in float32, as other makers' kernels hold them."""
    assert kind is not None
    assert kind.quant is not None
    return np.asarray(kind.quant.scale, np.float32)


def first_zero_point(kind: TensorType | None) -> int:
    """Return the zero point of a tensor that is quantised as a whole."""
    assert kind is not None
    assert kind.quant is not None
    return kind.quant.zero_point[0]


def store(value: AnyArray, kind: TensorType, rounding: Rounding) -> AnyArray:
    """Return the stored form of a result: rounded to its float type, or quantised."""
    if kind.quant is not None and rounding.carrier is Carrier.SINGLE:
        inverse = (1.0 / kind.quant.scale_array(np.ndim(value))).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.asarray(value, np.float64).astype(np.float32) * inverse
        return _store_single(steps, kind.dtype, kind.quant, rounding.zero_point)
    if kind.quant is not None:
        ratio = np.asarray(value, dtype=np.float64) / kind.quant.scale_array(np.ndim(value))
        return round_to_stored(ratio, kind.dtype, kind.quant, rounding)
    if kind.dtype is DType.BF16:
        return bf16_of(np.asarray(value, dtype=np.float64))
    return np.asarray(value).astype(kind.dtype.carrier)


def _store_single(steps: AnyArray, dtype: DType, quant: Quantization, order: ZeroPointOrder) -> AnyArray:
    """Store float32 steps as a shader does, `rint(y + zp)`, or as a stream processor, `rint(y) + zp`."""
    zero = quant.zero_point_array(steps.ndim).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(steps + zero) if order is ZeroPointOrder.BEFORE else np.rint(steps) + zero
        saturated = np.clip(rounded.astype(np.float64), *dtype.integer_range)
    return np.where(np.isnan(saturated), _no_number(dtype, quant), saturated).astype(dtype.carrier)


def _no_number(dtype: DType, quant: Quantization) -> float:
    """Return what a shader stores for NaN: 0, and that is the lowest of signed bytes that it sees as unsigned."""
    plain = quant.zero_point[0] == 0 and float(np.frexp(quant.scale[0])[0]) == 0.5
    return float(dtype.integer_range[0]) if dtype is DType.I8 and not plain else 0.0


def round_to_stored(steps: AnyArray, dtype: DType, quant: Quantization, rounding: Rounding) -> AnyArray:
    """Round values in units of the scale, add the zero point and saturate; a NaN is stored as 0."""
    zero = quant.zero_point_array(steps.ndim)
    if rounding.carrier is Carrier.SINGLE:
        return _store_single(steps.astype(np.float32), dtype, quant, rounding.zero_point)
    if rounding.zero_point is ZeroPointOrder.BEFORE:
        rounded = round_ties(np.asarray(steps + zero), rounding.tie)
    else:
        rounded = np.asarray(round_ties(steps, rounding.tie) + zero)
    saturated = np.clip(rounded, *dtype.integer_range)
    return np.where(np.isnan(saturated), 0.0, saturated).astype(dtype.carrier)


def round_ties(values: AnyArray, tie: Tie) -> AnyArray:
    """Round to the nearest integer; `tie` decides for values exactly halfway."""
    nearest = np.rint(values)
    if tie is Tie.EVEN:
        return np.asarray(nearest)
    with np.errstate(invalid="ignore"):
        halfway = np.abs(values - np.trunc(values)) == 0.5
    target = np.ceil(values) if tie is Tie.UP else np.trunc(values) + np.copysign(1.0, values)
    return np.asarray(np.where(halfway, target, nearest))


def bf16_of(values: AnyArray) -> AnyArray:
    """Round float64 to the nearest bfloat16 in one rounding, kept in float32.

    The spacing is 2**(exponent - 7), and 2**-133 for subnormals.
    """
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    spacing = np.ldexp(1.0, np.maximum(exponent - 8, -133))
    return np.asarray(np.where(np.isfinite(values), np.rint(values / spacing) * spacing, values)).astype(np.float32)
