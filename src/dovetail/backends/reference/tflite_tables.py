"""TFLite's kernels that look functions up: softmax, logistic and hyperbolic tangent, step by step as they are there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from dovetail.backends.reference.fixed_point import multiply_32
from dovetail.ir import AnyArray, DType

_STEPS = 512
_ONE_MORE = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45),
    *(46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)
"""Places of the kernels' table of the logistic function that are one above the rounded value, measured with LiteRT."""
_FINEST = 65535
"""Inputs of the exponential's table reach from -10 to 0 in this many steps."""


def softmax_8(stored: AnyArray, scale: float, out_scale: float, zero: int, dtype: DType) -> AnyArray:
    """Return softmax along the last axis of 8-bit integers: a table of float32 exponentials, summed in order."""
    down = np.float32(-np.float32(scale))
    table = _exp(down * np.arange(256, dtype=np.float32))
    whole = stored.astype(np.int64)
    grown = table[whole.max(axis=-1, keepdims=True) - whole]
    # numpy adds in pairs; the kernel adds one after the other.
    total = np.add.accumulate(grown, axis=-1, dtype=np.float32)[..., -1:]
    share = np.float32(1.0) / (total * np.float32(out_scale))
    steps = (grown * share).astype(np.float32)
    if dtype is DType.U8:
        rounded = np.trunc(steps + np.float32(0.5)).astype(np.int64)
    else:
        rounded = np.floor(steps.astype(np.float64) + 0.5).astype(np.int64) + zero
    return np.asarray(np.clip(rounded, *dtype.integer_range)).astype(dtype.carrier)


def softmax_16(stored: AnyArray, scale: float) -> AnyArray:
    """Return softmax along the last axis of 16-bit integers, as 15-bit shares of one."""
    whole = stored.astype(np.int64)
    behind = whole - whole.max(axis=-1, keepdims=True)
    scaled = multiply_32(behind, np.asarray(float(np.float32(scale)) / (10.0 / _FINEST)))
    grown = _look_up(np.clip(scaled + 32767, -32768, 32767), _exponentials())
    total = grown.sum(axis=-1, keepdims=True)
    headroom = 32 - _bit_length(total)
    shifted = ((total << (headroom - 1)) + (1 << 13)) >> 14
    share = _look_up(np.clip(shifted - (1 << 15) - (1 << 16), -32768, 32767), _reciprocals())
    right = 31 - headroom
    result = (grown * share + (np.int64(1) << (right - 1))) >> right
    return np.asarray(np.clip(result, 0, 32767)).astype(np.int16)


def logistic_16(stored: AnyArray, scale: float) -> AnyArray:
    """Return 1 / (1 + e^-x) of 16-bit integers, as 15-bit shares of one."""
    x = _to_table(stored, scale, most_shift=0)
    size = np.abs(x)
    place = size >> 9
    table = _sigmoids()
    near = table[np.minimum(place, 255)]
    far = table[np.minimum(place + 1, 255)]
    result = np.where(place >= 255, 0x7FFF << 10, (near << 9) + (size & 0x1FF) * (far - near))
    result = np.where(x >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1)
    return np.asarray(result >> 10).astype(np.int16)


def tanh_16(stored: AnyArray, scale: float) -> AnyArray:
    """Return tanh of 16-bit integers, as 15-bit shares of one: it is 2 / (1 + e^-2x) - 1."""
    x = _to_table(stored, scale, most_shift=1)
    size = np.abs(x)
    place = size >> 8
    table = _sigmoids()
    near = table[np.minimum(place, 255)]
    far = table[np.minimum(place + 1, 255)]
    result = np.where(place >= 255, 0xFFFF << 8, (near << 8) + (size & 0xFF) * (far - near))
    half = 1 << 23
    result = np.where(x >= 0, result - half + (1 << 7), -result + half + (1 << 7) - 1)
    return np.asarray(result >> 8).astype(np.int16)


def _to_table(stored: AnyArray, scale: float, *, most_shift: int) -> AnyArray:
    """Return inputs in steps of 1 / (3 * 4096), by a factor of 15 bits where the scale is no power of two."""
    mantissa, exponent = np.frexp(np.float32(scale))
    shift = 12 + int(exponent) - 1
    whole = stored.astype(np.int64)
    if mantissa == 0.5 and 0 <= shift <= most_shift:
        return whole * (3 << shift)
    multiplier, shift = float(np.float32(scale)) * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return np.asarray((whole * int(multiplier) + ((1 << shift) >> 1)) >> shift)


def _bit_length(value: AnyArray) -> AnyArray:
    return np.frexp(value.astype(np.float64))[1].astype(np.int64)


def _look_up(value: AnyArray, table: AnyArray) -> AnyArray:
    """Interpolate between the 513 entries of a table; values and entries have 16 bits."""
    place, part = 256 + (value >> 7), value & 0x7F
    base = table[place]
    return np.asarray(base + (((table[place + 1] - base) * part + 64) >> 7))


@cache
def _sigmoids() -> AnyArray:
    """Return 1 / (1 + e^(-i / 24)) in 16 bits for 256 places, one more where the curve bends most."""
    rounded = np.rint(65536.0 / (1.0 + np.exp(-np.arange(256) / 24.0))).astype(np.int64)
    rounded[list(_ONE_MORE)] += 1
    return rounded


@cache
def _exponentials() -> AnyArray:
    return _table(10.0 / _FINEST, 32767, np.exp)


@cache
def _reciprocals() -> AnyArray:
    return _table(1.0 / _FINEST, -32768, lambda x: 1.0 / (1.0 + x))


def _table(scale: float, zero: int, function: Callable[[AnyArray], AnyArray]) -> AnyArray:
    """Return 513 entries of a function in steps of 2 / 65535; each halves the error in the middle of its step."""
    low, high = scale * (-32768 - zero), scale * (32767 - zero)
    step = (high - low) / _STEPS
    finer = 65536.0 / (2.0 / _FINEST * 65535.0)
    at = low + np.arange(_STEPS) * step
    here = _away(function(at) * finer)
    between = _away((function(at + step) * finer + here) / 2.0)
    bias = _away((between - _away(function(at + step / 2.0) * finer)) / 2.0)
    last = _away(function(np.asarray([high])) * finer)
    entries = np.clip(np.concatenate([here - bias, last]), -32768, 32767)
    return np.asarray(entries, np.int64)


def _exp(x: AnyArray) -> AnyArray:
    """Return the float32 that is nearest to e^x; numpy's own float32 exponential is off by one now and then."""
    return np.asarray(np.exp(x.astype(np.float64)), np.float32)


def _away(value: AnyArray) -> AnyArray:
    """Round, halves away from zero."""
    return np.asarray(np.copysign(np.floor(np.abs(value) + 0.5), value))
