"""How a processor rounds: the facts that make a simulation equal to it bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from dovetail.ir.dtypes import AnyArray, DType


class Tie(Enum):
    """Where a value halfway between two integers goes."""

    EVEN = "even"
    AWAY = "away"
    """Away from zero."""
    UP = "up"
    """Towards plus infinity."""


class ZeroPointOrder(Enum):
    """Whether the zero point is added before or after rounding; it matters for ties only."""

    AFTER = "after"
    """`round(x / s) + zp`"""
    BEFORE = "before"
    """`round(x / s + zp)`"""


class Carrier(Enum):
    """In which floats a real result lies before it is rounded."""

    EXACT = "exact"
    SINGLE = "single"
    """float32: the result, its product with the reciprocal of the scale, and the sum with the zero point."""


class Scheme(Enum):
    """By whose rules integers are computed."""

    EXACT = "exact"
    """Exact accumulators, one real multiplier, one rounding."""
    TFLITE = "tflite"
    """TFLite's reference kernels: fixed-point multipliers, rounded twice."""
    ORT = "onnxruntime"
    """ONNX Runtime's integer kernels: accumulators, multipliers and reals in float32."""


class Accumulator(Enum):
    """How products of unsigned data and signed weights, of 8 bits each, are added up."""

    WIDE = "wide"
    """In 32 bits or more: the sums are exact."""
    PAIRS = "pairs"
    """First two by two in 16 bits, which saturate, as x86 without VNNI does it (`vpmaddubsw`)."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """How a real result becomes a stored integer."""

    tie: Tie = Tie.EVEN
    zero_point: ZeroPointOrder = ZeroPointOrder.AFTER
    carrier: Carrier = Carrier.EXACT


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The rounding facts of a target.

    `multiplier_bits`: an accumulator's multiplier `s_x * s_w / s_y` is computed in float32, product first (for scales
    of channels in float64, rounded once), and cut to so many mantissa bits (towards zero); None keeps it in
    double precision. `scheme` other than EXACT puts another maker's rules first. `by_op` refines `default` by operator,
    or by (operator, stored type). `accumulator`: how products of bytes are added up.
    """

    default: Rounding = Rounding()
    multiplier_bits: int | None = None
    by_op: Mapping[str | tuple[str, DType], Rounding] = field(default_factory=dict)
    scheme: Scheme = Scheme.EXACT
    accumulator: Accumulator = Accumulator.WIDE

    def rounding(self, op: str, stored: DType) -> Rounding:
        """Return the rounding of an operator whose output is stored in this type."""
        return self.by_op.get((op, stored)) or self.by_op.get(op) or self.default

    def multiplier(self, data: float, weight: AnyArray, output: float) -> AnyArray:
        """Return what accumulators are multiplied by, in float64; `weight` holds one scale or one a channel."""
        if self.multiplier_bits is None:
            return np.asarray(data * weight.astype(np.float64) / output)
        if weight.size > 1:
            single = (data * weight.astype(np.float64) / output).astype(np.float32)
        else:
            single = np.asarray(np.float32(data) * weight.astype(np.float32) / np.float32(output))
        return cut_mantissa(np.asarray(single, np.float64), self.multiplier_bits)


def cut_mantissa(values: AnyArray, bits: int) -> AnyArray:
    """Cut the mantissas of floats to some bits, towards zero."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.trunc(np.ldexp(mantissa, bits)), exponent - bits))


EXACT = Arithmetic()
"""Ties to even, double-precision multipliers: the semantics of ONNX Q/DQ in exact arithmetic."""

TFLITE = Arithmetic(Rounding(Tie.AWAY, ZeroPointOrder.AFTER), scheme=Scheme.TFLITE)
"""TFLite's reference kernels."""

ORT = Arithmetic(Rounding(Tie.EVEN, ZeroPointOrder.AFTER), scheme=Scheme.ORT)
"""ONNX Runtime's integer kernels, and float32 between DequantizeLinear and QuantizeLinear where it has none."""

ORT_PAIRS = replace(ORT, accumulator=Accumulator.PAIRS)
"""The same on processors whose kernels add products in pairs that saturate."""
