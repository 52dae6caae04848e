"""Tables of the stream processor: 1024 entries at floats of the input's steps, in steps of the output.

Found in the vendor's compiled graphs, entry by entry. An entry has 16 significant bits, ties away from zero, and five
bits of exponent. A table of 16 bits has knots at floats of 5, 6 or 7 bits of exponent, and a mantissa of as many bits
as are left; between them are straight lines in float32. Measured on every value of 16 bits under 16 scales of 15
functions, and on 920,000 results of convolutions: with the entries of the compiled graph all are equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dovetail.backends.verisilicon.emulator.floats import fp21_away, rounded, single, truncated
from dovetail.backends.verisilicon.emulator.functions import (
    NATIVE,
    ODD,
    STREAMED,
    STREAMED_BYTES,
    STREAMED_ODD,
    USER,
    Function,
)
from dovetail.backends.verisilicon.emulator.tables import Scales, between, drawn_line, positive_knots
from dovetail.backends.verisilicon.views import OperatorView
from dovetail.ir import AnyArray, DType

_TABLES = {**USER, **NATIVE, **STREAMED}
_ODD = {**ODD, **STREAMED_ODD}
STREAM_KINDS = frozenset({*_TABLES, *_ODD, "hard_sigmoid"})
"""Functions of the stream processor in 16 bits."""
_BYTES = {**_TABLES, **_ODD, **STREAMED_BYTES}
_BYTES_EXCEPT = frozenset({"neg", "sqrt", "square"})
"""Functions that are not a table of the stream processor in bytes, were not measured, or are as near in float32."""
_LOG_BITS = 13
"""Of an entry of Log, rounded: measured on 6,375 bytes under 25 pairs of scales, none differs."""
_WHOLE = {"ceil": np.ceil, "floor": np.floor}
"""Computed in float32, ties to the even byte, as their zero point is added first: equal on 80 drawn pairs of scales."""
_BYTE_BITS = 17
"""Significant bits of the entries of a table of bytes; the rest is cut off."""
_INDEX_BITS = 10
_EXPONENTS = (4, 5, 6, 7)
"""Bits that the exponents of knots have."""
_WIDE, _NARROW = 2.0**15, 2.0**8
"""More than the number of steps of 16 bits, and of bytes."""
_LISTED = "tan"
"""The function of which the driver reads a table of ovxlib's even for bytes, which has knots."""
_SATURATED = 7.0
"""What a table of a sigmoid reaches to: between 6.9 and 7.02, as measured."""
_SMALLEST, _LARGEST = 2.0**-14, 65535.0
"""What entries hold."""
_HEADER_BITS = 16
_LAST = 57344.0
"""The last knot of a table that ovxlib fills."""
_UNLIMITED = "hard_swish"
"""The function whose table is not held beyond what the input could store."""


class ReadSpan(NamedTuple):
    """What a table reads that is computed with a product before it: real numbers."""

    accumulator: float
    """The step of the product's accumulators."""
    low: float
    high: float
    """What the tensor between them could hold: beyond it every entry is that of the end."""


def _reaching(width: int, needed: float) -> AnyArray:
    """Return the knots of a table: as few bits of exponent as reach a number of steps, and the rest of its bits.

    The headers of 250 tables say so.
    """
    for bits in _EXPONENTS:
        knots = _knots(bits, width - bits)
        if knots[-1] >= needed:
            break
    return knots


def _knots(bits: int, mantissa: int) -> AnyArray:
    """Return the knots above zero, smallest first."""
    steps, bias = 1 << mantissa, (1 << (bits - 1)) - 1
    codes = np.arange(steps << bits)
    return np.ldexp(1.0 + codes % steps / steps, codes // steps - bias)


def _filled(function: Function, at: AnyArray, scale_out: float) -> AnyArray:
    """Return entries: what is no number is the largest."""
    with np.errstate(all="ignore"):
        values = function(at)
        steps = fp21_away(single(single(values) / float(np.float32(scale_out))))
    steps = np.where(np.abs(steps) < _SMALLEST, 0.0, np.clip(steps, -_LARGEST, _LARGEST))
    return np.where(np.isnan(steps), _LARGEST, steps)


def _resampled(function: Function) -> Function:
    """Return what the driver reads from a table that ovxlib filled: straight lines between that one's knots.

    Its knots below zero go on where floats of 16 bits are no longer normal. Above zero a line that begins at infinity
    ends at minus infinity.
    """
    knots = (np.arange(1024, dtype=np.uint16) << np.uint16(6)).view(np.float16).astype(np.float64)
    knots[:0x10], knots[0x1F0:0x200], knots[0x3F0:] = 0.0, _LAST, -_LAST
    knots = np.unique(knots + 0.0)
    values = function(knots)

    def read(at: AnyArray) -> AnyArray:
        found = between(at, knots, values)
        return np.where(np.isposinf(found) & (at > 0), -np.inf, found)

    return read


def _line(at: AnyArray, knots: AnyArray, entries: AnyArray, beyond: float = 0.0) -> AnyArray:
    """Return what lies on straight lines between entries at knots, and on one of a slope of its own `beyond` them."""
    place = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 1)
    after = np.minimum(place + 1, len(knots) - 1)
    low, last = entries[place], after == place
    slope = single((entries[after] - low) / np.where(last, 1.0, knots[after] - knots[place]))
    return single(low + single(np.where(last, beyond, slope) * np.maximum(at - knots[place], 0.0)))


def _slopes_beyond(kind: str, span: ReadSpan, ratio: float) -> tuple[float, float]:
    """Return the slopes below and above a table, in steps of the output, as its header has them: cut to 16 bits."""
    if kind == "gelu":
        return 0.0, float(truncated(np.asarray(ratio), _HEADER_BITS))
    if kind != "softplus":
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        powers = np.exp(np.array((span.low, span.high), np.float32))
        slopes = np.nan_to_num(powers / (np.float32(1) + powers)).astype(np.float64)
    below, above = truncated(slopes * ratio, _HEADER_BITS)
    return float(below), float(above)


def stream_table(
    steps: AnyArray, item: OperatorView, scales: Scales, *, span: ReadSpan | None = None
) -> AnyArray | None:
    """Return what the stream processor makes of 16-bit values, or None of a function that it has no table of.

    `span`: the table is computed with a product before it, of which `steps` are accumulators, and may give bytes.
    """
    kind, odd = item.operator.kind, item.operator.kind in _ODD
    if kind == "hard_sigmoid":
        with np.errstate(all="ignore"):
            reals = USER[kind](item)(steps * scales.scale_in)
        return np.asarray(np.clip(np.rint(reals / scales.scale_out), scales.lowest, scales.highest))
    if kind not in _TABLES and not odd:
        return None
    step = scales.scale_in if span is None else span.accumulator
    function = (_ODD if odd else _TABLES)[kind](item)
    widest = _WIDE if item.kind().dtype is DType.I16 else _NARROW
    needed = widest if span is None else max(-span.low, span.high) / step
    knots = _reaching(_INDEX_BITS - (not odd), _SATURATED / step if kind == "sigmoid" else needed)
    ends = (-np.inf, np.inf) if span is None or kind == _UNLIMITED else (span.low, span.high)
    if odd:
        ends = (ends[0], max(-ends[0], ends[1]))
    filled, at = _resampled(function) if kind in USER else function, single(knots * step)
    falls, rises = (0.0, 0.0) if span is None else _slopes_beyond(kind, span, step / scales.scale_out)
    sizes, negative = np.abs(steps), steps < 0
    above = _line(sizes, knots, _filled(filled, np.clip(at, *ends), scales.scale_out), rises)
    below = -above if odd else _line(sizes, knots, _filled(filled, np.clip(-at, *ends), scales.scale_out), -falls)
    found = np.where(negative, below, above)
    if odd or kind == "reciprocal":
        found = np.where(sizes == 0, 0.0, found)
    elif np.isfinite(filled(np.zeros(1))).all():
        # The first knot stands for 0 itself: told apart where steps are of the size of 1, behind products and alone.
        found = np.where(sizes == 0, _filled(filled, np.zeros(1), scales.scale_out), found)
    return np.asarray(np.clip(np.rint(found) + scales.zero_out, scales.lowest, scales.highest))


def _slope_of_sign(item: OperatorView) -> tuple[float, float] | None:
    """Return the slopes below and above 0 of a function that is straight on either side, or None."""
    match item.operator.kind:
        case "abs":
            return -1.0, 1.0
        case "relu":
            return 0.0, 1.0
        case "leaky_relu":
            return float(single(item.floats[0])), 1.0
    return None


def stream_bytes(steps: AnyArray, item: OperatorView, scales: Scales) -> AnyArray | None:
    """Return what the stream processor makes of bytes: an entry for each in steps of the output, of 17 bits.

    Functions that are straight on either side of 0, and Tan, have tables with knots; HardSigmoid is not cut. Measured
    on all bytes under 200 pairs of scales each: of 15 functions one entry of Mish differs by a step, and of Erf 13 of
    51,200; and of Cos, Sin and Tan under 20 each.
    """
    kind, slopes = item.operator.kind, _slope_of_sign(item)
    if kind == _LISTED:
        return stream_table(steps, item, scales)
    if kind in _WHOLE:
        whole = single(_WHOLE[kind](single(steps * scales.scale_in)))
        bytes_made = single(single(whole * single(1.0 / scales.scale_out)) + scales.zero_out)
        return np.asarray(np.clip(np.rint(bytes_made), scales.lowest, scales.highest))
    with np.errstate(all="ignore"):
        if slopes is not None:
            factors = np.asarray(slopes) * float(np.float32(scales.scale_in) / np.float32(scales.scale_out))
            below, above = (drawn_line(np.abs(steps), positive_knots(), _times(factor)) for factor in factors)
            scaled = np.where(steps < 0, -below, above)
        elif kind in _BYTES and kind not in _BYTES_EXCEPT:
            reals = single(_BYTES[kind](item)(single(steps * scales.scale_in)))
            scaled = single(reals * single(1.0 / scales.scale_out))
            if kind == "log":
                scaled = rounded(scaled, _LOG_BITS)
            elif kind != "hard_sigmoid":
                scaled = truncated(scaled, _BYTE_BITS)
            scaled = np.where(np.isnan(scaled), 0.0, scaled)
        else:
            return None
    return np.asarray(np.clip(np.rint(scaled) + scales.zero_out, scales.lowest, scales.highest))


def _times(factor: float) -> Function:
    return lambda steps: np.asarray(steps * factor)
