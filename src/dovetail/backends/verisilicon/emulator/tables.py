"""The tensor processor's table look-up: 1024 knots, straight lines between them, every step rounded to 21 bits.

The table is looked up at `q - zero_point` in steps of the input (the driver moves the scale into the table), and gives
reals that are scaled and moved to stored integers. Measured on all stored values of u8 and i16 tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np

from dovetail.backends.verisilicon.emulator.floats import fp21, fp21_away, saturated, single
from dovetail.backends.verisilicon.emulator.functions import (
    NATIVE,
    ODD,
    STREAMED,
    USER,
    Function,
    clip_function,
)
from dovetail.backends.verisilicon.generation import NEWEST, Generation
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, all_codes, scale_of, zero_of
from dovetail.ir import AnyArray, DType

_LARGEST = 57344.0
"""The last knot."""
_SMALLEST = 2.0**-14
_INFINITE = 65536.0
"""What the processor's floats of five exponent bits take anything larger for."""
_BELOW_ZERO = -(2.0**-15)
"""What the newest tensor processor gives at the zero of an odd table: one step where steps are as small, else none."""


@cache
def _knots_of_both_signs() -> AnyArray:
    codes = np.arange(1024, dtype=np.uint16) << np.uint16(6)
    values = codes.view(np.float16).astype(np.float64)
    values[:0x10] = values[0x200:0x210] = 0.0
    values[0x1F0:0x200], values[0x3F0:] = _LARGEST, -_LARGEST
    return np.unique(values)


@cache
def positive_knots() -> AnyArray:
    """Return the knots of tables for positive values: 16-bit floats with five bits behind the point."""
    codes = np.arange(1024, dtype=np.uint16) << np.uint16(5)
    values = codes.view(np.float16).astype(np.float64)
    values[992:] = _LARGEST
    return np.unique(values)


def look_up(steps: AnyArray, knots: AnyArray, values: AnyArray, *, by_slope: bool = False) -> AnyArray:
    """Return a table's value: both neighbours are weighted and rounded, then their sum.

    With `by_slope` it is the neighbour nearer to zero, and the rounded product of their difference.
    """
    last = len(knots) - 2
    left = np.clip(np.searchsorted(knots, steps, side="right") - 1, 0, last)
    share = (steps - knots[left]) / (knots[left + 1] - knots[left])
    low, high = values[left], values[left + 1]
    with np.errstate(invalid="ignore", over="ignore"):
        if by_slope:
            below = steps < 0
            near, far = np.where(below, high, low), np.where(below, low, high)
            found = fp21(near + fp21((far - near) * np.where(below, 1.0 - share, share)))
            # What the part makes of an infinite entry, as measured at the zero of Log and Reciprocal, and beside it.
            least = np.where(steps == 0, 0.0, -np.inf)
            return np.where(np.isneginf(near), least, np.where(np.isposinf(near), -np.inf, found))
        # A weight of zero leaves its neighbour out, even where that is infinite.
        first = fp21(np.where(share == 1.0, 0.0, low * (1.0 - share)))
        return fp21(first + fp21(np.where(share == 0.0, 0.0, high * share)))


@dataclass(frozen=True, slots=True)
class Scales:
    """What an operator's types say; a signed byte that is not in fixed point is computed as an unsigned one."""

    scale_in: float
    scale_out: float
    zero_out: int
    lowest: int
    highest: int
    by_slope: bool = False
    saturates: bool = False
    """Minus infinity at the zero of a table is the lowest stored value."""

    def within(self, reals: AnyArray) -> AnyArray:
        """Return finite reals as far as the processor's floats hold them."""
        return np.where(np.isinf(reals), reals, np.clip(reals, -_INFINITE, _INFINITE))

    def store(self, reals: AnyArray) -> AnyArray:
        """Return stored integers of reals as the tensor processor makes them."""
        moved = fp21(fp21(self.within(reals) * fp21(single(1.0 / self.scale_out))) + self.zero_out)
        return saturated(moved, self.lowest, self.highest)


def scales_of(item: OperatorView, index: int = 0) -> tuple[Scales, int]:
    """Return the scales from an input to the output, and what to add to the results to get the stored integers."""
    made = item.made()
    lowest, highest = made.dtype.integer_range
    signed = item.generation not in NEWEST and item.in_fixed_point
    move = 128 if made.dtype is DType.I8 and not signed else 0
    by_slope = item.generation is Generation.VIP9000_PLUS
    affine_bytes = made.dtype is not DType.I16 and not item.in_fixed_point
    scales = Scales(
        scale_of(item.kind(index)),
        scale_of(made),
        zero_of(made) + move,
        lowest + move,
        highest + move,
        by_slope=by_slope,
        saturates=by_slope and affine_bytes,
    )
    return scales, -move


_Results = TypeVar("_Results", AnyArray, "AnyArray | None")


def table_of(item: OperatorView, results: Callable[[AnyArray, Scales], _Results], index: int = 0) -> _Results:
    """Return the stored results of all stored values of an input, in the order of their bits; None where none are."""
    kind = item.kind(index)
    scales, back = scales_of(item, index)
    steps = all_codes(kind).astype(np.float64) - zero_of(kind)
    found = results(steps, scales)
    return found if found is None else (found + back).astype(item.made().dtype.carrier)


def read_table(entries: AnyArray, stored: AnyArray) -> AnyArray:
    """Return the entries for stored values."""
    return np.asarray(np.take(entries, stored.view(f"u{stored.dtype.itemsize}")))


def copied(steps: AnyArray, scales: Scales) -> AnyArray:
    """Return what a copy with another scale makes of `q - zero_point`: one multiplier of 16 bits, no table."""
    moved = fp21(fp21(steps * fp21(single(scales.scale_in / scales.scale_out))) + scales.zero_out)
    return saturated(moved, scales.lowest, scales.highest)


def user_table(steps: AnyArray, function: Function, scales: Scales) -> AnyArray:
    """Return what a table that ovxlib fills gives: the driver reads it at its own knots."""
    knots = _knots_of_both_signs()
    given = function(knots)
    values = _entries(lambda at: between(at, knots, given), knots * scales.scale_in, scales)
    stored = scales.store(look_up(steps, knots, values, by_slope=scales.by_slope))
    if scales.saturates and np.isneginf(given[knots == 0.0]).all():
        return np.where(steps == 0, float(scales.lowest), stored)
    return stored


def between(at: AnyArray, knots: AnyArray, values: AnyArray) -> AnyArray:
    """Interpolate a table that may hold infinities and what is not a number."""
    left = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    share = np.clip((at - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)
    low, high = values[left], values[left + 1]
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.where(np.isinf(low), low, np.where(np.isinf(high), high, low + (high - low) * share))
    return np.where(share == 0.0, low, np.where(share == 1.0, high, found))


def native_table(steps: AnyArray, function: Function, scales: Scales) -> AnyArray:
    """Return what a table that the driver fills gives."""
    knots = _knots_of_both_signs()
    entries = _entries(function, knots * scales.scale_in, scales)
    return scales.store(look_up(steps, knots, entries, by_slope=scales.by_slope))


def squares(steps: AnyArray, scales: Scales) -> AnyArray:
    """Return the squares of `q - zero_point` as reals, before they are stored."""
    knots = _knots_of_both_signs()
    return look_up(steps, knots, _entries(np.square, knots * scales.scale_in, scales), by_slope=scales.by_slope)


def odd_table(steps: AnyArray, function: Function, scales: Scales) -> AnyArray:
    """Return what a table for positive values gives; the sign is put back."""
    knots = positive_knots()
    entries = _entries(function, knots * scales.scale_in, scales, away=scales.by_slope)
    found = look_up(np.abs(steps), knots, entries, by_slope=scales.by_slope)
    if scales.by_slope:
        found = np.where(steps == 0, _BELOW_ZERO, found)
    return scales.store(np.where(steps < 0, -found, found))


def _entries(function: Function, at: AnyArray, scales: Scales, *, away: bool = True) -> AnyArray:
    """Return the entries of a table: what is below the smallest float of 5 exponent bits is 0.

    Drivers fill them by float32, ties away from zero; odd tables of older parts are rounded once, ties to even.
    """
    with np.errstate(all="ignore"):
        values = fp21_away(single(function(at))) if away else fp21(function(at))
        return np.where(np.abs(values) < _SMALLEST, 0.0, scales.within(values))


_LOST_STEP = 2.0**-15
"""The scale in fixed point of which a single step is read as nothing."""


def _joins_the_array(item: OperatorView) -> bool:
    """Tell whether the array makes what an operator reads for it only: it is then computed as that leaves the array.

    Behind a layer of several rows it is not, but on the stream processor: measured on nine parts.
    """
    whole, tensor = item.whole, item.operator.inputs[0]
    while tensor in whole.makers and tensor not in whole.edges and whole.reader_count(tensor) == 1:
        maker = whole.program.operators[whole.makers[tensor]]
        if maker.kind == "fully_connected" and item.generation is not Generation.STREAM:
            rows = math.prod(whole.program.tensors[tensor].shape[1:])
            return maker.route is Route.ARRAY and rows == 1
        if maker.kind != "reshape":
            return maker.route is Route.ARRAY
        tensor = maker.inputs[0]
    return False


def drawn_line(at: AnyArray, knots: AnyArray, function: Function) -> AnyArray:
    with np.errstate(all="ignore"):
        values = fp21_away(single(function(knots)))
        left = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
        slope = single((values[left + 1] - values[left]) / (knots[left + 1] - knots[left]))
        return single(values[left] + single(slope * (at - knots[left])))


def straight_lines(at: AnyArray, function: Function) -> AnyArray:
    """Return a function from the stream processor's table of both signs."""
    return drawn_line(at, _knots_of_both_signs(), function)


def processed(steps: AnyArray, item: OperatorView, scales: Scales) -> AnyArray | None:
    """Return what the tensor processor makes of `q - zero_point`, or None for an operator without a table."""
    kind = item.operator.kind
    if kind in USER:
        return user_table(steps, USER[kind](item), scales)
    if kind == "clip":
        return user_table(steps, clip_function(item), scales)
    if kind == "leaky_relu" and not item.in_fixed_point:
        # A table of steps, whose scales are left to the store: measured on every byte under 700 pairs of scales.
        scales = replace(scales, scale_in=1.0, scale_out=scales.scale_out / scales.scale_in)
    if kind in NATIVE:
        # One driver divides in float64: all 65,536 values under five scales.
        exact = kind == "swish" and item.generation is Generation.VIP9000_PLUS
        return native_table(steps, (STREAMED if exact else NATIVE)[kind](item), scales)
    if kind in ODD:
        return odd_table(steps, ODD[kind](item), scales)
    if kind in ("abs", "relu"):
        straight = np.abs(steps) if kind == "abs" else np.maximum(steps, 0.0)
        # One step of 2^-15 in fixed point is read as 0; two of 2^-16 are not. Measured on every byte and generation,
        # behind 15 arrangements of operators.
        lost = item.in_fixed_point and scales.scale_in == _LOST_STEP and not (kind == "relu" and _joins_the_array(item))
        return copied(np.where(straight == 1.0, 0.0, straight) if lost else straight, scales)
    return copied(steps, scales) if kind == "data_convert" else None
