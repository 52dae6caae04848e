"""gemmlowp's functions on 16-bit fixed point: logistic and tanh, as TFLite's integer LSTM computes them.

A number with `n` integer bits has `15 - n` bits behind the point. Source: gemmlowp's fixedpoint.h; the exponential is
a polynomial on [-1/4, 0) times powers of e by the bits of the rest, the quotient three steps of Newton's method.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import AnyArray

_ONE = 32767
_LOWEST, _HIGHEST = -32768, 32767
_EXP_EIGHTH, _THIRD = 28918, 10923
"""e^(-1/8) and 1/3 with 15 bits behind the point."""
_POWERS = ((-2, 25520), (-1, 19875), (0, 12055), (1, 4435), (2, 600), (3, 11), (4, 0))
"""Exponents k and e^(-2^k) with 15 bits behind the point."""
_48_17, _32_17 = 23130, -15420
"""48/17 and -32/17 with 13 bits behind the point."""
_HALF_DEEP, _ONE_DEEP = 1 << 14, 1 << 13


def logistic(x: AnyArray) -> AnyArray:
    """Return 1 / (1 + e^-x) of numbers with 3 integer bits, as 15-bit shares of one."""
    share = _one_over_one_plus(_exp(-np.abs(x), 3))
    found = np.where(x > 0, share, _ONE - share)
    return np.asarray(np.where(x == 0, _HALF_DEEP, found))


def tanh(x: AnyArray, integer_bits: int) -> AnyArray:
    """Return tanh of numbers with so many integer bits, as 15-bit shares of one."""
    # e^(2x): one more integer bit doubles the number.
    size = _one_minus_over_one_plus(_exp(-np.abs(x), integer_bits + 1))
    return np.asarray(np.where(x == 0, 0, np.where(x < 0, -size, size)))


def high(a: AnyArray, b: AnyArray | int) -> AnyArray:
    """Return the high half of the doubled product of 16-bit numbers, rounded."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    moved = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.asarray(np.where(moved >= 0, moved >> 15, -((-moved) >> 15)))


def divide_by_power(value: AnyArray, exponent: int) -> AnyArray:
    """Divide by a power of two and round, halves away from zero."""
    if exponent == 0:
        return value
    mask = (1 << exponent) - 1
    return np.asarray((value >> exponent) + ((value & mask) > (mask >> 1) + (value < 0)))


def saturated(value: AnyArray) -> AnyArray:
    """Return values clamped to 16 bits."""
    return np.asarray(np.clip(value, _LOWEST, _HIGHEST))


def _exp(x: AnyArray, integer_bits: int) -> AnyArray:
    """Return e^x of numbers up to 0."""
    quarter_bits = 15 - integer_bits - 2
    quarter = 1 << quarter_bits
    near = (x & (quarter - 1)) - quarter
    result = _exp_near_zero(saturated(near << integer_bits))
    rest = near - x
    for exponent, factor in _POWERS:
        if integer_bits > exponent:
            bit = 1 << (15 - integer_bits + exponent)
            result = np.where(rest & bit, high(result, factor), result)
    if integer_bits > 5:
        result = np.where(x < -(1 << (15 - integer_bits + 5)), 0, result)
    return np.where(x == 0, _ONE, result)


def _exp_near_zero(a: AnyArray) -> AnyArray:
    """Return e^a for a in [-1/4, 0): a polynomial around -1/8."""
    x = a + (1 << 12)
    x2 = high(x, x)
    x3, x4 = high(x2, x), high(x2, x2)
    rest = divide_by_power(high(divide_by_power(x4, 2) + x3, _THIRD) + x2, 1)
    return saturated(_EXP_EIGHTH + high(x + rest, _EXP_EIGHTH))


def _inverse_of_half(a: AnyArray) -> AnyArray:
    """Return 2 / (1 + a) with 13 bits behind the point."""
    half = (a + _ONE + 1) // 2
    x = _48_17 + high(half, _32_17)
    for _ in range(3):
        x = x + saturated(high(x, _ONE_DEEP - high(half, x)) << 2)
    return x


def _one_over_one_plus(a: AnyArray) -> AnyArray:
    return saturated(_inverse_of_half(a) << 1)


def _one_minus_over_one_plus(a: AnyArray) -> AnyArray:
    return saturated((_inverse_of_half(a) - _ONE_DEEP) << 2)
