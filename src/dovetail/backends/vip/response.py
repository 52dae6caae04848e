"""Local response normalisation in the tensor processor: squares, their sum and a table look-up, all of 21 bits.

Parts with a stream processor have a shader for it, in float32: measured on all 65536 values of 16 bits (equal with the
exponent 0.75) and on random bytes in dynamic fixed point, of which the factor is rounded to half precision and the
product cut to it (equal on three tensors).
"""

from __future__ import annotations

import numpy as np
from numpy import float32

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.array import stored_from
from dovetail.backends.vip.floats import fp21
from dovetail.backends.vip.scene import Rule, Scene, Values
from dovetail.backends.vip.singles import exp2, log2
from dovetail.backends.vip.table import look_up, positive_knots
from dovetail.ir import AnyArray, DType


def response_rule(scene: Scene) -> Rule | None:
    """Return how LRN `[N, C, ...]` is computed, or None where the shaders do it."""
    kind, node = scene.kind(0), scene.node
    if kind.dtype is not scene.made.dtype:
        return None
    if scene.vip is Vip.STREAM:
        return _shaded(scene) if kind.dtype is DType.I16 or scene.in_fixed_point else None
    assert kind.quant is not None
    size = node.integer("size", 1)
    alpha = node.number("alpha", 1e-4) / size
    beta, bias = node.number("beta", 0.75), node.number("bias", 1.0)
    scales, back = scene.scales()
    zero, scale = kind.quant.zero_point[0], kind.quant.scale[0]
    knots = positive_knots()
    entries = fp21((bias + alpha * knots) ** -beta)

    def rule(values: Values) -> AnyArray:
        stored = values[0]
        assert stored is not None
        steps = stored.astype(np.float64) - zero
        reals = fp21(steps * fp21(scale))
        factor = look_up(_sums(fp21(np.square(reals)), size), knots, entries, by_slope=scales.by_slope)
        return np.asarray((scales.store(fp21(reals * factor)) + back).astype(scene.made.dtype.carrier))

    return rule


def _shaded(scene: Scene) -> Rule:
    """Return the shader's rule for steps that are powers of two."""
    node, quants = scene.node, (scene.kind(0).quant, scene.made.quant)
    assert quants[0] is not None
    assert quants[1] is not None
    size = node.integer("size", 1)
    alpha = float32(node.number("alpha", 1e-4) / size)
    beta, bias = float32(node.number("beta", 0.75)), float32(node.number("bias", 1.0))
    scale, inverse = float32(quants[0].scale[0]), float32(1.0 / quants[1].scale[0])
    halved = scene.made.dtype is not DType.I16

    def rule(values: Values) -> AnyArray:
        stored = values[0]
        assert stored is not None
        reals = stored.astype(float32) * scale
        sums = _neighbours(np.square(reals), size).astype(float32)
        power = log2(alpha * sums + bias) * beta
        found = _cut_half(reals * exp2(-power).astype(np.float16)) if halved else reals / exp2(power)
        return stored_from(np.rint(found * inverse), scene.made)

    return rule


def _cut_half(values: AnyArray) -> AnyArray:
    """Cut float32 to the significant bits of half precision, towards zero."""
    return np.asarray((values.astype(float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(float32))


def _neighbours(squares: AnyArray, size: int) -> AnyArray:
    """Return the exact sums of the squares of neighbouring channels."""
    before = (size - 1) // 2
    widths = [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (squares.ndim - 2)
    padded = np.pad(squares.astype(np.float64), widths)
    return np.asarray(sum(padded[:, start : start + squares.shape[1]] for start in range(size)))


def _sums(squares: AnyArray, size: int) -> AnyArray:
    """Add the squares of neighbouring channels one after another."""
    before = (size - 1) // 2
    widths = [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (squares.ndim - 2)
    padded = np.pad(squares, widths)
    total = padded[:, : squares.shape[1]]
    for start in range(1, size):
        total = fp21(total + padded[:, start : start + squares.shape[1]])
    return total
