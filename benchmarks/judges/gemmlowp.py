"""TFLite's fixed-point multipliers, as gemmlowp defines them: what its kernels do to an accumulator.

A multiplier M is `q / 2^31 * 2^shift` with q rounded to 31 bits. 8-bit kernels round twice: first the high half of
the doubled product, then the division by a power of two. Kernels with 64-bit accumulators round q to 15 bits first.
"""

from __future__ import annotations

import math

import numpy as np

from dovetail.backends.reference.kernels import KERNELS, Call
from dovetail.ir import AnyArray, DType, TensorType
from judges.trial import Trial

_CHANNEL_AXIS = {"Conv": 1}


def fixed_point(multiplier: float) -> tuple[int, int]:
    """Return q and shift of a multiplier."""
    mantissa, shift = math.frexp(multiplier)
    q = math.floor(mantissa * 2**31 + 0.5)
    return (q // 2, shift + 1) if q == 2**31 else (q, shift)


def multiply_32(acc: AnyArray, multiplier: float) -> AnyArray:
    """Multiply int32 accumulators, with double rounding."""
    q, shift = fixed_point(multiplier)
    product = (acc.astype(np.int64) << max(shift, 0)) * q
    nudge = np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = _truncated(np.asarray(product + nudge), 31)
    right = max(-shift, 0)
    if right == 0:
        return high
    remainder = high & ((1 << right) - 1)
    threshold = ((1 << right) - 1 >> 1) + (high < 0)
    return np.asarray((high >> right) + (remainder > threshold))


def multiply_64(acc: AnyArray, multiplier: float) -> AnyArray:
    """Multiply int64 accumulators by a 15-bit multiplier, halves up."""
    q, shift = fixed_point(multiplier)
    reduced = (q + (1 << 15)) >> 16 if q < 0x7FFF0000 else 0x7FFF
    total = 15 - shift
    return np.asarray((acc.astype(np.int64) * reduced + (1 << (total - 1))) >> total)


def emulate(trial: Trial) -> list[AnyArray]:
    """Return what a Conv or Mul gives when the reference's accumulators are rounded as TFLite does."""
    node, kinds = trial.graph.nodes[0], trial.graph.types
    output = kinds[node.outputs[0]]
    found: list[AnyArray] = []
    for feed in trial.inputs:
        values = {**trial.graph.constants, **feed}
        centred = tuple(_centred(values[name], kinds[name]) for name in node.inputs)
        (acc,) = KERNELS[node.op](Call(node, centred, (None,)))
        scale = np.ones(1)
        for name in node.inputs[:2]:
            scale = scale * np.asarray(_quant(kinds[name])[0])
        multipliers = scale / _quant(output)[0][0]
        multiply = multiply_64 if output.dtype is DType.I16 and node.op in _CHANNEL_AXIS else multiply_32
        axis = _CHANNEL_AXIS.get(node.op, 0)
        parts = np.split(acc, len(multipliers), axis=axis)
        scaled = [multiply(part, float(one)) for part, one in zip(parts, multipliers, strict=True)]
        steps = np.concatenate(scaled, axis=axis) + _quant(output)[1][0]
        found.append(np.clip(steps, *output.dtype.integer_range).astype(output.dtype.carrier))
    return found


def _quant(kind: TensorType) -> tuple[tuple[float, ...], tuple[int, ...]]:
    assert kind.quant is not None
    return kind.quant.scale, kind.quant.zero_point


def _centred(stored: AnyArray, kind: TensorType) -> AnyArray:
    assert kind.quant is not None
    return np.asarray(stored.astype(np.int64) - kind.quant.zero_point_array(stored.ndim))


def _truncated(value: AnyArray, bits: int) -> AnyArray:
    """Divide by a power of two, towards zero as C does."""
    return np.asarray(np.where(value >= 0, value >> bits, -((-value) >> bits)))
