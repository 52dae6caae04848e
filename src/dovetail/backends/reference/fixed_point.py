"""TFLite's fixed-point multipliers, as gemmlowp defines them.

A real multiplier M is `q / 2^31 * 2^shift` with q rounded to 31 bits. 32-bit accumulators are rounded twice: the high
half of the doubled product, then the division by a power of two. 64-bit accumulators are multiplied by q of 15 bits.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import AnyArray


def fixed_point(multiplier: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return q and shift of multipliers."""
    mantissa, shift = np.frexp(np.asarray(multiplier, np.float64))
    q = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    full = q == 2**31
    q, shift = np.where(full, q // 2, q), np.where(full, shift + 1, shift)
    return np.where(shift < -31, 0, q), np.where(shift < -31, 0, shift)


def multiply_32(acc: AnyArray, multiplier: AnyArray) -> AnyArray:
    """Multiply 32-bit accumulators by multipliers that broadcast against them."""
    q, shift = fixed_point(multiplier)
    product = (np.asarray(acc, np.int64) << np.maximum(shift, 0)) * q
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.where(nudged >= 0, nudged >> 31, -((-nudged) >> 31))
    right = np.maximum(-shift, 0)
    mask = (np.int64(1) << right) - 1
    threshold = (mask >> 1) + (high < 0)
    return np.asarray((high >> right) + ((high & mask) > threshold))


def multiply_64(acc: AnyArray, multiplier: AnyArray) -> AnyArray:
    """Multiply 64-bit accumulators by multipliers of 15 bits, halves up."""
    q, shift = fixed_point(multiplier)
    reduced = np.where(q < 0x7FFF0000, (q + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - shift
    return np.asarray((np.asarray(acc, np.int64) * reduced + (np.int64(1) << (total - 1))) >> total)


def divide_rounded(total: AnyArray, count: AnyArray) -> AnyArray:
    """Divide integers, halves away from zero."""
    moved = np.where(total > 0, total + count // 2, total - count // 2)
    return np.asarray(np.where(moved >= 0, moved // count, -((-moved) // count)))
