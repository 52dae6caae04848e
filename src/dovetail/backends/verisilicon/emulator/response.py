"""Local response normalisation in the tensor processor: squares, their sum and a table look-up, all of 21 bits.

Parts with a stream processor have a shader for it, in float32: measured on all 65536 values of 16 bits (equal with the
exponent 0.75) and on random bytes in dynamic fixed point, of which the factor is rounded to half precision and the
product cut to it (equal on three tensors).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.elementwise import finished
from dovetail.backends.verisilicon.emulator.floats import fp21
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.emulator.singles import exp2, log2
from dovetail.backends.verisilicon.emulator.storing import reals_of, stored_from
from dovetail.backends.verisilicon.emulator.tables import look_up, scales_of
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, scale_of, zero_of
from dovetail.ir import AnyArray, DType

_CHANNELS = -3
_LEAST_ENTRY = 2.0**-14
"""The least normal number of half precision."""
_FIRST_NORMAL, _BEHIND_LAST = 32, 992
"""Codes of knots, of 5 bits of exponent and 5 of mantissa."""
_BEYOND, _KNOT_UNIT = 2.0**16, 2.0**8
"""The last knot, which half precision has not, and what all are multiplied by."""


def build_response(item: OperatorView) -> Kernel:
    """Return LRN of `[N, C, H, W]` across channels."""
    known = item.is_stored and item.kind().dtype is item.made().dtype
    # Planes of one element are computed without a table.
    if known and item.operator.route is Route.PROCESSOR and item.shape()[-2:] != (1, 1):
        return _processed(item)
    if known and item.operator.route is Route.SHADER:
        return _shaded(item)
    size, (alpha, beta, bias) = item.ints[0], item.floats

    def run(values: Values) -> AnyArray:
        x = reals_of(given(values), item.kind())
        return finished(item, x / (bias + alpha * _neighbours(x * x, size)) ** beta)

    return run


def _processed(item: OperatorView) -> Kernel:
    """Return the tensor processor's rule."""
    size, (alpha, beta, bias) = item.ints[0], item.floats
    scale, zero = scale_of(item.kind()), zero_of(item.kind())
    scales, back = scales_of(item)
    scales = replace(scales, scale_out=scales.scale_out / scale)
    # The scale of squares is in the table, but for fixed point.
    square, unit = (scale, 1.0) if item.in_fixed_point else (1.0, scale * scale)
    knots = _knots()
    sums = (float32(bias) + float32(alpha * unit) * knots.astype(float32)).astype(np.float64)
    entries = _flushed(fp21((sums ** -float(float32(beta))).astype(float32)))

    def run(values: Values) -> AnyArray:
        steps = given(values).astype(np.float64) - zero
        total = _sums(fp21(np.square(steps * square)), size)
        found = np.where(total < knots[1], 0.0, np.minimum(total, knots[-1]))
        factor = look_up(found, knots, entries, by_slope=scales.by_slope)
        return np.asarray((scales.store(fp21(steps * factor)) + back).astype(item.made().dtype.carrier))

    return run


def _knots() -> AnyArray:
    """Return the sums of squares that the table has entries for: none between 0 and 2^-6, the last is 2^24."""
    codes = np.arange(1024, dtype=np.uint16)[_FIRST_NORMAL:_BEHIND_LAST] << np.uint16(5)
    return np.concatenate([[0.0], codes.view(np.float16).astype(np.float64), [_BEYOND]]) * _KNOT_UNIT


def _flushed(entries: AnyArray) -> AnyArray:
    """Return entries of a table as it holds them: those below the normal numbers of half precision are 0."""
    return np.where(np.abs(entries) < _LEAST_ENTRY, 0.0, entries)


def _shaded(item: OperatorView) -> Kernel:
    """Return the shader's rule for steps that are powers of two."""
    size, (alpha, beta, bias) = item.ints[0], (float32(value) for value in item.floats)
    scale, inverse = float32(scale_of(item.kind())), float32(1.0 / scale_of(item.made()))
    halved = item.made().dtype is not DType.I16

    def run(values: Values) -> AnyArray:
        reals = given(values).astype(float32) * scale
        power = log2(alpha * _neighbours(np.square(reals), size).astype(float32) + bias) * beta
        found = _cut_half(reals * exp2(-power).astype(np.float16)) if halved else reals / exp2(power)
        return stored_from(np.rint(found * inverse), item.made())

    return run


def _cut_half(values: AnyArray) -> AnyArray:
    """Cut float32 to the significant bits of half precision, towards zero."""
    return np.asarray((values.astype(float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(float32))


def _shifted(squares: AnyArray, size: int) -> list[AnyArray]:
    """Return for each of `size` neighbours the squares of that channel."""
    before = (size - 1) // 2
    widths = [(0, 0)] * squares.ndim
    widths[_CHANNELS] = (before, size - 1 - before)
    padded = np.moveaxis(np.pad(squares, widths), _CHANNELS, 0)
    count = squares.shape[_CHANNELS]
    return [np.moveaxis(padded[start : start + count], 0, _CHANNELS) for start in range(size)]


def _neighbours(squares: AnyArray, size: int) -> AnyArray:
    """Return the exact sums of the squares of neighbouring channels."""
    return np.asarray(sum(_shifted(squares.astype(np.float64), size)))


def _sums(squares: AnyArray, size: int) -> AnyArray:
    """Add the squares of neighbouring channels one after another."""
    first, *rest = _shifted(squares, size)
    total = first
    for term in rest:
        total = fp21(total + term)
    return total
