"""Sums and differences of two byte tensors: in the float adder behind the array, as a convolution, or exact.

Derived on the vendor's simulator from all 65536 pairs of stored values under random scales; equal on every pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.array import OLD, STEPS, cut
from dovetail.backends.vip.floats import rounded, single, truncated
from dovetail.backends.vip.scene import Rule, Scene, Values, is_stored
from dovetail.ir import AnyArray, DType, TensorType


class Way(Enum):
    """Name what the vendor's compiler makes of a sum."""

    ADDER = "adder"
    """The second operand joins behind the array's multiplier, in short floats."""
    WEIGHTS = "weights"
    """A convolution of both operands with two byte weights."""
    EXACT = "exact"
    """A shader or the stream processor."""


_WIDEST_SCALE = 2.0
"""The adder takes operands of at most so many output steps."""
_NEAR, _FAR = 2.0, 20.0
"""Ratios of the operands' scales that make no byte weights any more: where a scale is above 1, and where none is."""
_ADDER_BITS = 10
_STREAM_BITS = 16
_CONSTANT_BITS = 10
"""The second operand's zero point is a constant of the adder with so many significant bits."""
_TINY = 2.0**-6
"""What is smaller only says that something was lost; parts with a stream processor have no such limit."""
_LOST = 2.0**-40
"""Stands for bits that were cut off: more than nothing, less than any step."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """Two operands and an output with their quantisation; `sign` is -1 for a difference."""

    scales: tuple[float, float, float]
    zeros: tuple[int, int, int]
    sign: float
    made: TensorType

    def finish(self, steps: AnyArray) -> AnyArray:
        """Return stored integers of sums in steps of the output."""
        limits = self.made.dtype.integer_range
        return np.asarray(np.clip(np.rint(steps) + self.zeros[2], *limits).astype(self.made.dtype.carrier))


def sum_rule(scene: Scene) -> Rule | None:
    """Return how a sum of two byte tensors is computed, or None where that is exact."""
    found = _operands(scene)
    if found is None:
        return None
    way = _way(scene, found)
    if way is Way.EXACT:
        return None
    lowest, highest = found.made.dtype.integer_range
    every = np.arange(lowest, highest + 1, dtype=np.float64)
    first, second = every[:, None], every[None, :]
    grid = _weighted(found, first, second, scene.vip) if way is Way.WEIGHTS else _added(found, first, second, scene.vip)
    entries = np.ascontiguousarray(grid).reshape(-1)

    def rule(values: Values) -> AnyArray:
        left, right = values
        assert left is not None
        assert right is not None
        # The place of a value among all of its type: 0 for the lowest.
        high = (left.view(np.uint8) ^ _flip(left)).astype(np.uint16) << np.uint16(8)
        return np.take(entries, high | (right.view(np.uint8) ^ _flip(right)))

    return rule


def _flip(stored: AnyArray) -> np.uint8:
    return np.uint8(0x80 if stored.dtype.kind == "i" else 0)


def _operands(scene: Scene) -> _Sum | None:
    """Return the operands of a sum that no shader computes, or None."""
    dtype, names = scene.made.dtype, scene.node.inputs
    bytes_ = (DType.U8, DType.I8) if scene.vip is Vip.STREAM else (DType.I8,)
    if dtype not in bytes_ or scene.in_fixed_point or len(names) != 2 or names[0] == names[1]:
        return None
    kinds = (scene.kind(0), scene.kind(1))
    if not all(is_stored(kind) and kind.dtype is dtype for kind in kinds) or kinds[0].shape != kinds[1].shape:
        return None
    quants = [kind.quant for kind in (*kinds, scene.made) if kind.quant is not None]
    scales, zeros = [quant.scale[0] for quant in quants], [quant.zero_point[0] for quant in quants]
    sign = -1.0 if scene.node.op == "Sub" else 1.0
    return _Sum((scales[0], scales[1], scales[2]), (zeros[0], zeros[1], zeros[2]), sign, scene.made)


def _way(scene: Scene, found: _Sum) -> Way:
    rank = scene.made.rank or 0
    first, second, made = found.scales
    if scene.vip not in (*OLD, Vip.VIP8000):
        flat = rank < 3 and scene.vip is not Vip.STREAM
        if not flat and float(single(max(first, second) / made)) <= _WIDEST_SCALE:
            return Way.ADDER
    fixed = any(name in scene.graph.constants for name in scene.node.inputs)
    if rank < 4 or fixed or found.made.dtype is not DType.I8:
        return Way.EXACT
    ratio = max(first, second) / min(first, second)
    return Way.WEIGHTS if ratio < (_NEAR if max(first, second) > 1.0 else _FAR) else Way.EXACT


def _weighted(found: _Sum, first: AnyArray, second: AnyArray, vip: Vip) -> AnyArray:
    """Return the sum as a convolution: what the zero points differ is an integer bias from the unrounded weights."""
    factor = found.sign * found.scales[1] / found.scales[0]
    weights, step = _byte_weights((1.0, factor))
    bias = float(np.rint(factor * (found.zeros[0] - found.zeros[1]) / step))
    multiplier = cut(step * found.scales[0] / found.scales[2], vip)
    total = (first - found.zeros[0]) * weights[0] + (second - found.zeros[0]) * weights[1] + bias
    return found.finish(total * multiplier)


def _byte_weights(weights: Sequence[float]) -> tuple[list[int], float]:
    """Return weights as integers around a zero point, and the size of a step."""
    low, high = min(0.0, *weights), max(0.0, *weights)
    step = float(single((high - low) / STEPS))
    zero = int(np.clip(np.rint(-low / step), 0, STEPS))
    return [int(np.clip(np.rint(weight / step) + zero, 0, STEPS)) - zero for weight in weights], step


def _added(found: _Sum, first: AnyArray, second: AnyArray, vip: Vip) -> AnyArray:
    """Return the sum of three terms in short floats: both operands, and the zero point of the second.

    The first operand is centred before it is multiplied; the second is multiplied as it is stored (unsigned).
    """
    lowest = found.made.dtype.integer_range[0]
    scale = found.scales[1] / found.scales[2]
    centred = (first - found.zeros[0]) * (found.scales[0] / found.scales[2])
    term = found.sign * (second - lowest) * scale
    constant = np.asarray(-found.sign * rounded(np.asarray((found.zeros[1] - lowest) * scale), _CONSTANT_BITS))
    if vip is Vip.STREAM:
        return found.finish(_plus(_plus(centred, term, _STREAM_BITS, 0.0), constant, _STREAM_BITS, 0.0))
    return found.finish(_plus(_plus(centred, constant, _ADDER_BITS, _TINY), term, _ADDER_BITS, _TINY))


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
    cut_low = kept_low != low
    trace = np.where(cut_low | (kept_high != high), _LOST, 0.0)
    place = np.ldexp(1.0, np.frexp(low)[1] - bits)
    apart = kept_high - kept_low - np.where(cut_low, place, 0.0)
    total = np.where(large * small < 0, apart, kept_high + kept_low) + trace
    total = np.where(low < tiny, kept_high + _LOST, total)
    return np.where(small == 0, large, np.sign(large) * total)
