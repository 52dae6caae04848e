"""TFLite's kernels in fixed point of their own: hard swish in 16 bits, division by Newton's method in 32."""

from __future__ import annotations

import numpy as np

from dovetail.backends.reference.fixed_point import fixed_point
from dovetail.ir import AnyArray

_MOST_32 = (1 << 31) - 1


def hard_swish(centred: AnyArray, scale: np.float32, out_scale: np.float32) -> AnyArray:
    """Return hard swish of centred 8-bit integers, in steps of the output."""
    fine = np.float32(np.float32(1.0 / 128.0) * scale)
    out_factor, out_shift = _factor_16(float(np.float32(fine / out_scale)))
    gate_factor, gate_shift = _factor_16(float(np.float32(fine / np.float32(3.0 / 32768.0))))
    x = centred * 128
    on_output = _high(x, out_factor, 15)
    gate = _saturate_16(x << (gate_shift - 1)) if gate_shift > 0 else x
    gate = _high(gate, gate_factor, 15)
    if gate_shift > 0:
        gate = _saturate_16(gate << 1)
    elif gate_shift < 0:
        gate = _divide_by_power(gate, np.asarray(-gate_shift))
    gate = (gate + (1 << 15)) >> 1
    product = gate * on_output
    cut = np.where(product >= 0, product >> 15, -((-product) >> 15))
    return _divide_by_power(cut, np.asarray(-out_shift))


def divide(left: AnyArray, right: AnyArray, ratio: float) -> AnyArray:
    """Return centred integers divided, times `ratio`; a divisor of 0 counts as the smallest one."""
    left, right = np.broadcast_arrays(np.where(right < 0, -left, left), np.abs(right))
    right = np.maximum(right, 1)
    factor, shift = (int(item) for item in fixed_point(np.asarray(ratio)))
    bits = np.frexp(right.astype(np.float64))[1].astype(np.int64)
    inverse = _inverse((right << (32 - bits)) - (1 << 31))
    magnitude = np.where(left < 0, 2 * -left - 1, 2 * left)
    headroom = np.where(left == 0, 31, 32 - np.frexp(np.maximum(magnitude, 1).astype(np.float64))[1].astype(np.int64))
    quotient = _high(left << headroom, inverse, 31)
    product, right_by = _high(quotient, factor, 31), (bits - 1) + headroom - shift
    # Where the dividend is 0 or -1 the kernel may shift 32 bits by 32 or more, which C++ leaves open: 64-bit processors
    # take the shift modulo 32, and 0 becomes 1.
    open_shift = (product >> (right_by & 31)) + (product > -1 + (product < 0))
    return np.where(right_by > 31, open_shift, _divide_by_power(product, np.minimum(right_by, 31)))


def _inverse(a: AnyArray) -> AnyArray:
    """Return 1 / (1 + a) for a in 0 ... 1, all with 31 bits behind the point: three steps of Newton's method."""
    denominator = (a + _MOST_32 + 1) // 2
    x = 1515870810 + _high(denominator, -1010580540, 31)
    for _ in range(3):
        rest = (1 << 29) - _high(denominator, x, 31)
        x = x + np.clip(_high(x, rest, 31) << 2, -_MOST_32 - 1, _MOST_32)
    return np.asarray(np.clip(x << 1, -_MOST_32 - 1, _MOST_32))


def _factor_16(multiplier: float) -> tuple[int, int]:
    """Return a multiplier as 16 bits and a shift."""
    q, shift = (int(item) for item in fixed_point(np.asarray(multiplier)))
    return (0x7FFF if q >= _MOST_32 - (1 << 15) else (q + (1 << 15)) >> 16), shift


def _high(a: AnyArray, b: AnyArray | int, bits: int) -> AnyArray:
    """Return the high half of the doubled product, rounded: halves away from zero (gemmlowp)."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    nudged = product + np.where(product >= 0, 1 << (bits - 1), 1 - (1 << (bits - 1)))
    return np.asarray(np.where(nudged >= 0, nudged >> bits, -((-nudged) >> bits)))


def _divide_by_power(value: AnyArray, exponent: AnyArray) -> AnyArray:
    """Divide by a power of two and round, halves away from zero."""
    mask = (np.int64(1) << exponent) - 1
    return np.asarray((value >> exponent) + ((value & mask) > (mask >> 1) + (value < 0)))


def _saturate_16(value: AnyArray) -> AnyArray:
    return np.asarray(np.clip(value, -32768, 32767))
