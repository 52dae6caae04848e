"""Linear resizing of affine bytes in the vendor's shaders, which are the same in every part.

Signed bytes are computed as unsigned ones, but for twice and three times the size. Where the output is stored as the
input is, four neighbours are weighted by products of their shares in half precision (in float32 for three times the
size); else straight lines are drawn in float32, columns first. Where both axes are doubled, or grow 4 or (centres on
centres) 8 times, and the steps differ, one integer of 16 bits stands for their ratio. Of twice the size with corners on
corners the weights hold the ratio where both zero points are the least byte, and else real numbers of half precision
are weighted. Measured on V853, A311D, i.MX 8M Plus and A733 with drawn sizes, scales and zero points; what is left, by
one step: eight times the size (up to 1e-5 of the elements), and with corners on corners one element in a million.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.floats import single, truncated
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.views import OperatorView, multiplier_of, scale_of, zero_of
from dovetail.ir import AnyArray, DType

_AT_ONCE, _TAKEN_IN_TURN = 4, 3
"""Columns of a thread, and threads of which all but the first forget half a pixel where they begin to read."""
_WHOLE_FACTORS = (2, 3, 4, 8)
"""Of both axes with centres on centres: the vendor has kernels of their own, which forget nothing."""
_UNSIGNED = 128
_HALF = 1 << 11
"""What the mantissa of half precision counts to."""
_SCALE_BITS = 16
"""Significant bits of the scale by which bytes become real numbers; the rest is cut off."""


class _Neighbours(NamedTuple):
    """Along one axis, for each element of the output: both neighbours, and the share of the second."""

    first: AnyArray
    second: AnyArray
    share: AnyArray


Weigh = Callable[[AnyArray, _Neighbours, _Neighbours], AnyArray]


def resized_bytes(item: OperatorView) -> Kernel:
    """Return the rule for a plane of affine bytes: `[..., H, W]` in another size."""
    same = item.kind().quant == item.made().quant
    sizes, made = item.shape()[-2:], item.made_shape()[-2:]
    factors = [factor for factor in _WHOLE_FACTORS if made == (factor * sizes[0], factor * sizes[1])]
    aligned, half = bool(item.ints[3]), bool(item.ints[4])
    rows = _neighbours(sizes[0], made[0], aligned=aligned, half=half)
    columns = _neighbours(sizes[1], made[1], aligned=aligned, half=half)
    if same and half and not factors:
        columns = _forgetful(columns, sizes[1], made[1])
    low, high = item.made().dtype.integer_range
    signed = same and factors in ([2], [3]) and not aligned
    move = _UNSIGNED if item.kind().dtype is DType.I8 and not signed else 0
    if factors == [2] and aligned:
        weigh: Weigh = _doubled(item, move)
    elif same:
        weigh = _weighted(np.float32 if factors == [3] and not aligned else np.float16)
    else:
        counted = factors and not aligned and factors[0] in ((2, 4, 8) if half else (2, 4))
        weigh = (_counted if counted else _drawn)(item, move)

    def run(values: Values) -> AnyArray:
        stored = given(values).astype(float32) + float32(move)
        steps = np.rint(weigh(stored, rows, columns)) - move
        return np.asarray(np.clip(steps, low, high).astype(item.made().dtype.carrier))

    return run


def _neighbours(size: int, made: int, *, aligned: bool, half: bool) -> _Neighbours:
    """Return the neighbours in float32; before the first the share is negative, and both are the first."""
    middle, numbers = float32(0.5), np.arange(made).astype(float32)
    if aligned:
        at = numbers * (float32(size - 1) / float32(max(made - 1, 1)))
    elif half:
        at = (numbers + middle) * (float32(size) / float32(made)) - middle
    else:
        at = numbers * (float32(size) / float32(made))
    low = np.floor(at)
    return _Neighbours(_within(low, size), _within(low + 1, size), at - np.maximum(low, float32(0)))


def _within(places: AnyArray, size: int) -> AnyArray:
    return np.clip(places, 0, size - 1).astype(np.int64)


def _forgetful(columns: _Neighbours, size: int, made: int) -> _Neighbours:
    """Return the columns as two of three threads read them: from where corners would lie on corners."""
    numbers = np.arange(made)
    begin = np.floor(numbers.astype(float32) * (float32(size) / float32(made)))
    forgets = numbers // _AT_ONCE % _TAKEN_IN_TURN != 0
    return _Neighbours(
        np.where(forgets, _within(begin, size), columns.first),
        np.where(forgets, _within(begin + 1, size), columns.second),
        columns.share,
    )


def _weighted(precision: type[np.floating[Any]], ratio: float = 1.0) -> Weigh:
    """Return the rule of four neighbours, whose weights are products of shares and a ratio; a subnormal one is 0."""

    def weigh(stored: AnyArray, rows: _Neighbours, columns: _Neighbours) -> AnyArray:
        one, right, below = float32(1), columns.share, rows.share[:, None]
        total: AnyArray = np.zeros(1)
        for line, part in ((rows.first, one - below), (rows.second, below)):
            for column, share in ((columns.first, one - right), (columns.second, right)):
                weight = (part * share * float32(ratio)).astype(precision).astype(np.float64)
                weight = np.where(np.abs(weight) < np.finfo(precision).smallest_normal, 0.0, weight)
                total = total + stored[..., line[:, None], column] * weight
        return total

    return weigh


def _doubled(item: OperatorView, move: int) -> Weigh:
    """Return the rule of twice the size with corners on corners, whatever the steps are."""
    scale, made_scale = (float(float32(scale_of(kind))) for kind in (item.kind(), item.made()))
    zero, made_zero = zero_of(item.kind()) + move, zero_of(item.made()) + move
    if zero == made_zero == 0:
        return _weighted(np.float16, float(float32(scale) / float32(made_scale)))
    cut, inverse, weighted = float(truncated(np.asarray(scale), _SCALE_BITS)), 1.0 / made_scale, _weighted(np.float16)

    def weigh(stored: AnyArray, rows: _Neighbours, columns: _Neighbours) -> AnyArray:
        reals = ((stored - zero) * cut).astype(np.float16).astype(np.float64)
        return single(single(single(weighted(reals, rows, columns)) * single(inverse)) + made_zero)

    return weigh


def _drawn(item: OperatorView, move: int) -> Weigh:
    """Return the rule of straight lines."""
    factor = float32(scale_of(item.kind())) / float32(scale_of(item.made()))
    zero, made_zero = float32(zero_of(item.kind()) + move), float32(zero_of(item.made()) + move)

    def weigh(stored: AnyArray, rows: _Neighbours, columns: _Neighbours) -> AnyArray:
        left, right = (stored[..., place] - zero for place in columns[:2])
        lines = (right - left) * columns.share + left
        top, bottom = lines[..., rows.first, :], lines[..., rows.second, :]
        return np.asarray(((bottom - top) * rows.share[:, None] + top) * factor + made_zero)

    return weigh


def _counted(item: OperatorView, move: int) -> Weigh:
    """Return the rule of a multiplier: the ratio of the steps as 16 bits, what is beyond them cut off.

    With corners on corners of pixels, what is between two neighbours is cut to the bits of half precision before.
    """
    multiplier, shift = multiplier_of(scale_of(item.kind()), scale_of(item.made()))
    zero, made_zero, halved = zero_of(item.kind()) + move, zero_of(item.made()) + move, not item.ints[4]

    def weigh(stored: AnyArray, rows: _Neighbours, columns: _Neighbours) -> AnyArray:
        wide, right, below = (part.astype(np.float64) for part in (stored, columns.share, rows.share))
        left, beside = wide[..., columns.first], wide[..., columns.second]
        lines = (beside - left) * right + left
        top, bottom = lines[..., rows.first, :], lines[..., rows.second, :]
        middle = (bottom - top) * below[:, None] + top - zero
        if halved:
            mantissa, exponent = np.frexp(middle)
            middle = np.ldexp(np.trunc(mantissa * _HALF), exponent) / _HALF
        return np.asarray(middle * multiplier / 2.0**shift + made_zero)

    return weigh
