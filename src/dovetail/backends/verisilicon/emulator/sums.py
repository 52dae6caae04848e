"""Sums and differences: of bytes in the float adder behind the array or as a convolution, else exact.

Derived on the vendor's simulator from all 65536 pairs of stored values under random scales; equal on every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backends.verisilicon.emulator.averages import STEPS, held
from dovetail.backends.verisilicon.emulator.elementwise import finished, pair_kernel
from dovetail.backends.verisilicon.emulator.floats import rounded, single, truncated
from dovetail.backends.verisilicon.emulator.kernel import Kernel, given
from dovetail.backends.verisilicon.emulator.reals import BINARY
from dovetail.backends.verisilicon.emulator.storing import reals_of
from dovetail.backends.verisilicon.generation import CONVERTING, Generation
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, is_stored, scale_of, zero_of
from dovetail.ir import AnyArray, DType, TensorType

_SIGNED_STEPS = 127
_ADDER_BITS = 10
_STREAM_BITS = 16
_CONSTANT_BITS = 10
"""The second operand's zero point is a constant of the adder with so many significant bits."""
_TINY = 2.0**-6
"""What is smaller only says that something was lost; parts with a stream processor have no such limit."""
_LOST_BITS = 40
"""Behind how many bits of the larger operand what stands for bits that were cut off lies: less than any step."""


@dataclass(frozen=True, slots=True)
class ByteSum:
    """Two operands and an output of bytes with their quantisation."""

    scales: tuple[float, float, float]
    zeros: tuple[int, int, int]
    sign: float
    """-1 for a difference."""
    made: TensorType
    signed: bool
    """The array takes the bytes as they are; those in memory are turned into unsigned ones first."""
    generation: Generation

    @property
    def lowest(self) -> int:
        """Return the stored value that the array takes for 0."""
        return 0 if self.signed else self.made.dtype.integer_range[0]

    def finish(self, steps: AnyArray) -> AnyArray:
        """Return stored integers of sums in steps of the output."""
        limits = self.made.dtype.integer_range
        return np.asarray(np.clip(np.rint(steps) + self.zeros[2], *limits).astype(self.made.dtype.carrier))


def byte_sum(item: OperatorView, first: int = 0) -> ByteSum:
    """Return the sum that an operator computes; `first` says which operand comes first."""
    kinds = (item.kind(first), item.kind(1 - first), item.made())
    scales, zeros = [scale_of(kind) for kind in kinds], [zero_of(kind) for kind in kinds]
    unsigned = item.made().dtype is DType.U8
    return ByteSum(
        (scales[0], scales[1], scales[2]),
        (zeros[0], zeros[1], zeros[2]),
        -1.0 if item.operator.kind == "sub" else 1.0,
        item.made(),
        item.in_fixed_point or (item.generation not in CONVERTING and (unsigned or not item.kept)),
        item.generation,
    )


def build_sum(item: OperatorView) -> Kernel:
    """Return a sum or a difference."""
    if item.operator.route in (Route.ADDER, Route.ARRAY):
        total = byte_sum(item)
        adds = _added if item.operator.route is Route.ADDER else _weighted
        return pair_kernel(item, lambda first, second: adds(total, first.astype(np.float64), second.astype(np.float64)))
    operator = BINARY[item.operator.kind]

    def run(first: AnyArray, second: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            reals = operator(reals_of(first, item.kind(0)), reals_of(second, item.kind(1)))
            return finished(item, reals, exact=True)

    if item.is_stored and is_stored(item.kind(1)):
        return pair_kernel(item, _shaded(item) if item.operator.route is Route.SHADER else run)
    return lambda values: run(given(values), given(values, 1))


def _shaded(item: OperatorView) -> Callable[[AnyArray, AnyArray], AnyArray]:
    """Return a sum of stored integers in a shader: float32 throughout, the output's zero point before the second.

    Equal on all pairs of bytes under 60 random scales.
    """
    kinds = (item.kind(0), item.kind(1), item.made())
    zeros = [np.float32(zero_of(kind)) for kind in kinds]
    with np.errstate(all="ignore"):
        scales = np.array([scale_of(kind) for kind in kinds]).astype(np.float32)
        inverse = np.float32(1) / scales[2]
        first_factor, second_factor = scales[:2] * inverse
    if item.operator.kind == "sub":
        second_factor = -second_factor
    carrier, limits = item.made().dtype.carrier, item.made().dtype.integer_range

    def run(first: AnyArray, second: AnyArray) -> AnyArray:
        with np.errstate(all="ignore"):
            steps = (first.astype(np.float32) - zeros[0]) * first_factor + zeros[2]
            steps = steps + (second.astype(np.float32) - zeros[1]) * second_factor
            return np.asarray(np.clip(np.rint(steps), *limits).astype(carrier))

    return run


def _weighted(total: ByteSum, first: AnyArray, second: AnyArray) -> AnyArray:
    """Return the sum as a convolution: what the zero points differ is an integer bias from the unrounded weights."""
    factor = total.sign * total.scales[1] / total.scales[0]
    takes_signs = total.signed and total.made.dtype is DType.I8
    weights, step = (_signed_weights if takes_signs else _byte_weights)((1.0, factor))
    bias = float(np.rint(single(factor * (total.zeros[0] - total.zeros[1]) / step)))
    multiplier = held(step, total.scales[0], total.scales[2], total.generation)
    sums = (first - total.zeros[0]) * weights[0] + (second - total.zeros[0]) * weights[1] + bias
    return total.finish(sums * multiplier)


def _byte_weights(weights: Sequence[float]) -> tuple[list[int], float]:
    """Return weights as integers around a zero point, and the size of a step."""
    low, high = min(0.0, *weights), max(0.0, *weights)
    step = float(single((high - low) / STEPS))
    zero = int(np.clip(np.rint(-low / step), 0, STEPS))
    return [int(np.clip(np.rint(weight / step) + zero, 0, STEPS)) - zero for weight in weights], step


def _signed_weights(weights: Sequence[float]) -> tuple[list[int], float]:
    """Return weights as integers of either sign, and the size of a step."""
    step = float(single(max(abs(weight) for weight in weights) / _SIGNED_STEPS))
    return [int(np.rint(weight / step)) for weight in weights], step


def _added(total: ByteSum, first: AnyArray, second: AnyArray) -> AnyArray:
    """Return the sum of stored operands in the adder; the first is centred before it is multiplied."""
    return _joined(total, (first - total.zeros[0]) * (total.scales[0] / total.scales[2]), second)


def _joined(total: ByteSum, steps: AnyArray, second: AnyArray) -> AnyArray:
    """Return the sum of three terms in short floats: steps of the output, and the second operand with its zero point.

    The second operand is multiplied as it is stored, so its zero point is a term of its own.
    """
    scale = total.scales[1] / total.scales[2]
    term = total.sign * (second - total.lowest) * scale
    constant = np.asarray(-total.sign * rounded(np.asarray((total.zeros[1] - total.lowest) * scale), _CONSTANT_BITS))
    if total.generation is Generation.STREAM:
        return total.finish(in_stream(in_stream(steps, term), constant))
    return total.finish(_plus(_plus(steps, constant, _ADDER_BITS, _TINY), term, _ADDER_BITS, _TINY))


def in_stream(one: AnyArray, other: AnyArray) -> AnyArray:
    """Return the sum of floats in the adder of a part with a stream processor."""
    return _plus(one, other, _STREAM_BITS, 0.0)


def build_joined_sum(item: OperatorView, operand: int, *, clamped: bool) -> Callable[[AnyArray, AnyArray], AnyArray]:
    """Return a sum with a convolution that is not stored, from its steps of the output and the stored other operand.

    `operand` is the position of the convolution. The accumulators are scaled to steps of the sum's output, limited to
    what the operand could hold (`clamped`: not below 0), and added.
    """
    total = byte_sum(item, operand)
    edges = total.made.dtype.integer_range
    low, high = ((edge - total.zeros[0]) * total.scales[0] / total.scales[2] for edge in edges)
    least = max(low, 0.0) if clamped else low
    return lambda steps, other: _joined(total, np.clip(steps, least, high), other.astype(np.float64))


def _plus(one: AnyArray, other: AnyArray, bits: int, tiny: float) -> AnyArray:
    """Add floats cut to some significant bits; what is cut off only leaves a trace, which breaks ties.

    A zero leaves the other operand whole. The smaller of two operands of unlike signs borrows one of its own last
    places when it was cut.
    """
    one, other = np.broadcast_arrays(one, other)
    swapped = np.abs(one) < np.abs(other)
    large, small = np.where(swapped, other, one), np.where(swapped, one, other)
    high, low = np.abs(large), np.abs(small)
    kept_high, kept_low = truncated(high, bits), truncated(low, bits)
    cut_low, lost = kept_low != low, np.ldexp(1.0, np.frexp(high)[1] - _LOST_BITS)
    trace = np.where(cut_low | (kept_high != high), lost, 0.0)
    place = np.ldexp(1.0, np.frexp(low)[1] - bits)
    apart = kept_high - kept_low - np.where(cut_low, place, 0.0)
    total = np.where(large * small < 0, apart, kept_high + kept_low) + trace
    total = np.where(low < tiny, kept_high + lost, total)
    return np.where(small == 0, large, np.sign(large) * total)
