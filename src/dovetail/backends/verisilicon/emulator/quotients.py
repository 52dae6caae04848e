"""Quotients and Softmax in the stream processor: products with a reciprocal from a table of straight lines.

Sixteen lines an octave, at steps of the divisor: the reciprocal is up to 0.1 % too large. Measured on random pairs: of
8192 quotients of bytes 3 to 11 differ by one step, of 16 bits 300 to 900 by up to three (without it 3300, by 28).
"""

from __future__ import annotations

import numpy as np

from dovetail.backends.verisilicon.emulator.floats import rounded, single, truncated
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.emulator.storing import centred, stored_from
from dovetail.backends.verisilicon.emulator.tables import drawn_line, straight_lines
from dovetail.backends.verisilicon.views import OperatorView, scale_of
from dovetail.ir import AnyArray

_BEYOND = float(1 << 20)
"""Steps that no stored type holds: what something divided by nothing is."""
_BITS, _RECIPROCAL_BITS = 16, 13
"""Significant bits of the processor's floats, and of entries of its table of reciprocals."""
_LINES = 8
"""Straight lines between a half and the next half, of which the mantissas from 0.5 to 1 take four."""
_LANES = 16
"""Values that are added up at once."""
_POWER_OF_NOTHING = 1.0 + 2.0**-15
"""The exponential of 0."""
_POWER_KNOTS = np.ldexp(1.0 + np.arange(512) % 32 / 32.0, np.arange(512) // 32 - 7)
"""Knots of the table of exponentials, of which compiled graphs have the header: 32 an octave from 2 ** -7 to 504."""
_SMALLEST_POWER = 2.0**-14


def reciprocals(values: AnyArray) -> AnyArray:
    """Return the processor's reciprocals: entries of 13 bits."""
    return straight_lines(values, lambda knots: rounded(1.0 / knots, _RECIPROCAL_BITS))


def inverse_roots(values: AnyArray, small: float) -> AnyArray:
    """Return `1 / sqrt(values + small)` from the processor's table: four straight lines an octave of values.

    It takes the values cut to 16 bits. Measured on rows of 2 to 33 values of 16 bits that are divided by their spread:
    31 of 36,300 differ, by one step.
    """
    cut = truncated(values, _BITS)
    mantissa, exponent = np.frexp(cut)
    line = np.floor((mantissa - 0.5) * _LINES)
    low, high = (np.ldexp(0.5 + edge / _LINES, exponent) for edge in (line, line + 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (rounded(1.0 / np.sqrt(edge + small), _RECIPROCAL_BITS) for edge in (low, high))
        return np.asarray(first + (second - first) / (high - low) * (cut - low))


def quotient_kernel(item: OperatorView) -> Kernel:
    """Return the quotient of two stored tensors."""
    kinds = item.kind(0), item.kind(1)
    multiplier = scale_of(kinds[0]) / scale_of(kinds[1]) / scale_of(item.made())

    def run(values: Values) -> AnyArray:
        top, bottom = centred(given(values), kinds[0]), centred(given(values, 1), kinds[1]).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = top * reciprocals(bottom) * multiplier
        return stored_from(np.rint(np.where(bottom == 0, np.sign(top) * _BEYOND, steps)), item.made())

    return run


def _powers(knots: AnyArray) -> AnyArray:
    """Return exponentials of what is below 0; those that five bits of exponent do not hold are 0."""
    powers = np.exp(-knots)
    return np.where(powers < _SMALLEST_POWER, 0.0, powers)


def _falling_powers(below: AnyArray) -> AnyArray:
    """Return exponentials of what is so much below 0: 32 straight lines an octave, and one from the first knot to 0."""
    lines = drawn_line(below, _POWER_KNOTS, _powers)
    return np.where(below < _POWER_KNOTS[0], single(_POWER_OF_NOTHING - below), lines)


def _summed(values: AnyArray, axis: int) -> AnyArray:
    """Return the sum in float32 of sixteen after sixteen: of neighbours, of neighbours of those, and so on.

    Of more than 200 the order is not known.
    """
    parts = list(np.moveaxis(values, axis, 0))
    total = _paired(parts[:_LANES])
    for begin in range(_LANES, len(parts), _LANES):
        total = single(total + _paired(parts[begin : begin + _LANES]))
    return np.expand_dims(total, axis)


def _paired(parts: list[AnyArray]) -> AnyArray:
    while len(parts) > 1:
        pairs = [single(first + second) for first, second in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def shares_kernel(item: OperatorView) -> Kernel:
    """Return Softmax as exponentials times the reciprocal of their sum: straight lines from two tables.

    The processor takes what it reads cut to 16 bits: the differences to the largest, and the sum. The exponential of 0
    is one step of 16 bits too large. Measured on random rows of 2 to 94 values: 121,000 values of 16 bits and 553,000
    bytes, all equal.
    """
    axis, scale = -1 - item.ints[0], float(np.float32(scale_of(item.kind())))
    inverse = float(np.float32(1.0 / scale_of(item.made())))

    def run(values: Values) -> AnyArray:
        reals = single(centred(given(values), item.kind()) * scale)
        below = truncated(single(reals.max(axis, keepdims=True) - reals), _BITS)
        powers = _falling_powers(below)
        total = truncated(_summed(powers, axis), _BITS)
        return stored_from(np.rint(single(powers * single(reciprocals(total) * inverse))), item.made())

    return run
