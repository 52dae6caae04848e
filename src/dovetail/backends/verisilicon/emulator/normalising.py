"""Normalisations: in 16 bits in the order of the shaders' float32 operations, else in float64.

The order is that of the public kernels of ovxlib (TIM-VX, `libnnext/ops/vx`) and was checked on the vendor's simulator
with random scales, shapes and values of 16 bits: equal on every element.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.elementwise import finished
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.emulator.quotients import inverse_roots, shares_kernel
from dovetail.backends.verisilicon.emulator.singles import (
    LOG2_E,
    cut_single,
    dotted,
    exp2,
    grouped,
    in_turn,
    inverse_root,
)
from dovetail.backends.verisilicon.emulator.spreading import group_norm, instance_norm, is_spread_by_shader
from dovetail.backends.verisilicon.emulator.storing import reals_of
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.views import OperatorView, scale_of
from dovetail.ir import AnyArray, DType

_TINY = float32(1e-12)
"""Least sum of squares."""
_LANES, _THREADS = 8, 16
_FASTEST = 0
"""The vendor's number of the last axis."""


def is_shaded(item: OperatorView) -> bool:
    """Tell whether a shader computes an operator from 16 bits to 16 bits: its rule is known."""
    wide = item.is_stored and item.kind().dtype is item.made().dtype is DType.I16
    return wide and item.operator.route is Route.SHADER


def steps_of(item: OperatorView) -> tuple[np.float32, np.float32]:
    """Return the input's scale and one over the output's: powers of two, both exact."""
    return float32(scale_of(item.kind())), float32(1.0 / scale_of(item.made()))


def rounded_steps(item: OperatorView, steps: AnyArray) -> AnyArray:
    """Return stored integers of steps, ties to even; what is no number, as a root of less than 0, becomes 0."""
    made = item.made().dtype
    numbers = np.where(np.isnan(steps), 0, np.rint(steps))
    return np.asarray(np.clip(numbers, *made.integer_range).astype(made.carrier))


def _on_reals(item: OperatorView, operator: Callable[[AnyArray], AnyArray]) -> Kernel:
    def run(values: Values) -> AnyArray:
        with np.errstate(all="ignore"):
            return finished(item, operator(reals_of(given(values), item.kind())))

    return run


def build_softmax(item: OperatorView) -> Kernel:
    """Return softmax or log_softmax along an axis."""
    if item.operator.kind == "softmax" and item.operator.route is Route.STREAM and item.is_stored:
        return shares_kernel(item)
    if is_shaded(item):
        return _shaded_log_softmax(item) if item.operator.kind == "log_softmax" else _shaded_softmax(item)
    axis, logarithmic = -1 - item.ints[0], item.operator.kind == "log_softmax"

    def operator(x: AnyArray) -> AnyArray:
        below = x - x.max(axis, keepdims=True)
        powers = np.exp(below)
        total = powers.sum(axis, keepdims=True)
        return np.asarray(below - np.log(total) if logarithmic else powers / total)

    return _on_reals(item, operator)


def _shaded_softmax(item: OperatorView) -> Kernel:
    """Return softmax of 16 bits: along the fastest axis four terms are added at a time."""
    axis, (scale, inverse) = -1 - item.ints[0], steps_of(item)
    coefficient = float32(scale * LOG2_E)

    def run(values: Values) -> AnyArray:
        stored = np.moveaxis(given(values).astype(np.int64), axis, -1)
        powers = exp2((stored - stored.max(-1, keepdims=True)).astype(float32) * coefficient)
        total = (in_turn(dotted(powers)) if item.ints[0] == _FASTEST else in_turn(powers))[..., None]
        reals = powers * (float32(1) / total)
        return np.moveaxis(rounded_steps(item, reals * inverse), -1, axis)

    return run


def _shaded_log_softmax(item: OperatorView) -> Kernel:
    """Return log_softmax of 16 bits: natural powers and logarithms, rounded to nearest, and added in turn.

    Measured on V853, A311D and i.MX 8M Plus along rows, columns and channels of 5 to 31: equal on 1.5 million values.
    """
    axis, (scale, inverse) = -1 - item.ints[0], steps_of(item)

    def run(values: Values) -> AnyArray:
        stored = np.moveaxis(given(values).astype(np.int64), axis, -1)
        below = (stored - stored.max(-1, keepdims=True)).astype(float32) * scale
        total = in_turn(np.exp(below.astype(np.float64)).astype(float32))[..., None]
        reals = below - np.log(total.astype(np.float64)).astype(float32)
        return np.moveaxis(rounded_steps(item, reals * inverse), -1, axis)

    return run


def build_l2_norm(item: OperatorView) -> Kernel:
    """Return rows divided by their lengths; in 16 bits sixteen squares of the fastest axis are added exactly."""
    axis = -1 - item.ints[0]
    if not is_shaded(item):
        return _on_reals(item, lambda x: x / np.sqrt(np.maximum((x * x).sum(axis, keepdims=True), float(_TINY))))
    _, inverse = steps_of(item)

    def run(values: Values) -> AnyArray:
        stored = np.moveaxis(given(values).astype(np.int64), axis, -1)
        squares = stored * stored
        if item.ints[0] == _FASTEST:
            total = in_turn(in_turn(grouped(cut_single(grouped(squares, 16).sum(-1)), 2)))
        else:
            total = in_turn(cut_single(squares))
        factor = inverse_root(np.maximum(total, _TINY)) * inverse
        return np.moveaxis(rounded_steps(item, stored.astype(float32) * factor[..., None]), -1, axis)

    return run


def _parameter(item: OperatorView, index: int) -> AnyArray:
    """Return a constant vector of float32."""
    value = item.constant(index)
    assert value is not None
    return value.reshape(-1)


def build_batch_norm(item: OperatorView) -> Kernel:
    """Return one factor and one term a channel; in 16 bits they are prepared in float32."""
    mean, variance, gain, shift = (_parameter(item, index) for index in (1, 2, 3, 4))
    if not is_shaded(item):
        weight = gain.astype(np.float64) / np.sqrt(variance.astype(np.float64) + item.floats[0])
        return scaled_channels(item, weight, shift - mean * weight)
    narrow = gain / np.sqrt(variance + float32(item.floats[0]))
    return scaled_channels(item, narrow, shift - mean * narrow)


def scaled_channels(item: OperatorView, factor: AnyArray, term: AnyArray) -> Kernel:
    """Return channels times a factor each, and a term each added."""
    shape = (-1,) + (1,) * (len(item.shape()) - 2)
    if not is_shaded(item):
        return _on_reals(item, lambda x: x * factor.reshape(shape) + term.reshape(shape))
    scale, inverse = steps_of(item)
    steps, moved = (factor * scale * inverse).reshape(shape), (term * inverse).reshape(shape)
    return lambda values: rounded_steps(item, given(values).astype(float32) * steps + moved)


def build_instance_norm(item: OperatorView) -> Kernel:
    """Return `[N, C, H, W]` normalised over H and W."""
    shift, gain = _parameter(item, 1), _parameter(item, 2)
    if is_spread_by_shader(item):
        return instance_norm(item, gain, shift)
    return _normalised(item, (-2, -1), gain.reshape(-1, 1, 1), shift.reshape(-1, 1, 1), item.floats[0])


def _normalised(item: OperatorView, axes: tuple[int, ...], gain: AnyArray, shift: AnyArray, epsilon: float) -> Kernel:
    def operator(x: AnyArray) -> AnyArray:
        spread = np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)
        return np.asarray((x - x.mean(axis=axes, keepdims=True)) / spread * gain + shift)

    return _on_reals(item, operator)


def _streamed(item: OperatorView, axes: tuple[int, ...], gain: AnyArray, shift: AnyArray) -> Kernel:
    """Return what the stream processor normalises, with inverse roots from its table."""

    def operator(x: AnyArray) -> AnyArray:
        centred = x - x.mean(axis=axes, keepdims=True)
        spread = inverse_roots(np.square(centred).mean(axis=axes, keepdims=True), item.floats[0])
        return np.asarray(centred * spread * gain + shift)

    return _on_reals(item, operator)


def build_layer_norm(item: OperatorView) -> Kernel:
    """Return rows normalised.

    The kernels of stored integers add epsilon to the variance of stored steps, not of reals: with steps below 1 it is
    as good as nothing. The stream processor adds it to that of reals.
    """
    shift, gain = _parameter(item, 1), _parameter(item, 2)
    if item.is_stored and item.operator.route is Route.STREAM:
        return _streamed(item, (-1,), gain, shift)
    if not is_shaded(item):
        epsilon = item.floats[0] * (scale_of(item.kind()) ** 2 if item.is_stored else 1.0)
        return _normalised(item, (-1,), gain, shift, epsilon)
    _, inverse = steps_of(item)
    small = float32(item.floats[0])

    def run(values: Values) -> AnyArray:
        stored = given(values)
        chunks, share = grouped(stored.astype(np.int64), _LANES), float32(1) / float32(stored.shape[-1])
        mean = in_turn(cut_single(chunks.sum(-1))) * share
        variance = in_turn(cut_single((chunks * chunks).sum(-1))) * share - mean * mean + small
        factor = gain * inverse_root(variance)[..., None]
        return rounded_steps(item, (factor * (stored.astype(float32) - mean[..., None]) + shift) * inverse)

    return run


def build_group_norm(item: OperatorView) -> Kernel:
    """Return `[N, C, H, W]` normalised over groups of channels."""
    if is_spread_by_shader(item):
        return group_norm(item, _parameter(item, 2), _parameter(item, 1))
    shift, gain = (_parameter(item, index).astype(np.float64).reshape(-1, 1, 1) for index in (1, 2))
    groups, epsilon = item.ints[0], item.floats[0]

    def operator(x: AnyArray) -> AnyArray:
        parts = x.reshape(*x.shape[:2], groups, -1)
        spread = np.sqrt(parts.var(axis=-1, keepdims=True) + epsilon)
        return np.asarray(((parts - parts.mean(axis=-1, keepdims=True)) / spread).reshape(x.shape) * gain + shift)

    return _on_reals(item, operator)


NORMALISING: dict[str, Callable[[OperatorView], Kernel]] = {
    "batch_norm": build_batch_norm,
    "group_norm": build_group_norm,
    "instance_norm": build_instance_norm,
    "l2_norm": build_l2_norm,
    "layer_norm": build_layer_norm,
    "log_softmax": build_softmax,
    "softmax": build_softmax,
}
"""Operators of this module by the shim's names."""
