"""Local response normalisation in the tensor processor: squares, their sum and a table look-up, all of 21 bits."""

from __future__ import annotations

import numpy as np

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.floats import fp21
from dovetail.backends.vip.scene import Rule, Scene, Values
from dovetail.backends.vip.table import look_up, positive_knots
from dovetail.ir import AnyArray


def response_rule(scene: Scene) -> Rule | None:
    """Return how LRN `[N, C, ...]` is computed, or None where the shaders do it."""
    kind, node = scene.kind(0), scene.node
    if scene.vip is Vip.STREAM or kind.dtype is not scene.made.dtype:
        return None
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


def _sums(squares: AnyArray, size: int) -> AnyArray:
    """Add the squares of neighbouring channels one after another."""
    before = (size - 1) // 2
    widths = [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (squares.ndim - 2)
    padded = np.pad(squares, widths)
    total = padded[:, : squares.shape[1]]
    for start in range(1, size):
        total = fp21(total + padded[:, start : start + squares.shape[1]])
    return total
