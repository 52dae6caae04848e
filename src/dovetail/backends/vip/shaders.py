"""Operators that the programmable shaders compute, in the order of their float32 operations.

The order is that of the public kernels of ovxlib (TIM-VX, `libnnext/ops/vx`) and was checked on the vendor's simulator
with random scales, shapes and values of 16 bits: equal on every element.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy import float32

from dovetail.backend.arithmetic import Vip
from dovetail.backends.vip.scene import Rule, Scene, Values, one_sample
from dovetail.backends.vip.singles import (
    LN_2,
    LOG2_E,
    cosine,
    cut_single,
    dotted,
    exp2,
    grouped,
    in_turn,
    inverse_root,
    log2,
    sine,
)
from dovetail.ir import AnyArray, DType

_Function = Callable[[AnyArray], AnyArray]


def _softplus(values: AnyArray) -> AnyArray:
    return np.asarray(log2(exp2(values * LOG2_E) + float32(1)) * LN_2)


FUNCTIONS: dict[str, _Function] = {
    "Cos": cosine,
    "Exp": lambda values: exp2(values * LOG2_E),
    "Sin": sine,
    "Softplus": _softplus,
}
"""Functions of one input, from float32 to float32."""
_ON_STREAM = frozenset({"BatchNormalization", "Cos", "Exp", "Resize", "Sin"})
"""What a part with a stream processor gives to a shader in 16 bits, or computes as one does (BatchNormalization)."""


def shader_rule(scene: Scene) -> Rule | None:
    """Return how a shader computes a node of 16 bits, or None where there is no rule."""
    maker = _MAKERS.get(scene.node.op)
    if maker is None or (scene.vip is Vip.STREAM and scene.node.op not in _ON_STREAM):
        return None
    kinds = {scene.kind(0).dtype, scene.made.dtype}
    bytes_too = scene.node.op == "Resize" and scene.in_fixed_point
    if kinds != {DType.I16} and not (bytes_too and kinds == {DType.I8}):
        return None
    return maker(scene)


def _scales(scene: Scene) -> tuple[np.float32, np.float32]:
    """Return the input's scale and one over the output's: powers of two, both exact."""
    quants = scene.kind(0).quant, scene.made.quant
    assert quants[0] is not None
    assert quants[1] is not None
    return float32(quants[0].scale[0]), float32(1.0 / quants[1].scale[0])


def _stored(scene: Scene, steps: AnyArray) -> AnyArray:
    """Return stored integers of steps, ties to even."""
    lowest, highest = scene.made.dtype.integer_range
    return np.asarray(np.clip(np.rint(steps), lowest, highest).astype(scene.made.dtype.carrier))


def _given(values: Values) -> AnyArray:
    stored = values[0]
    assert stored is not None
    return stored


def _unary(scene: Scene) -> Rule:
    function = FUNCTIONS[scene.node.op]
    scale, inverse = _scales(scene)

    def rule(values: Values) -> AnyArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return _stored(scene, function(_given(values).astype(float32) * scale) * inverse)

    return rule


def _axis(scene: Scene) -> int | None:
    rank = scene.kind(0).rank
    return None if rank is None else scene.node.integer("axis", -1) % rank


def _soft(scene: Scene) -> Rule | None:
    """Return Softmax or LogSoftmax: along the fastest axis four terms are added at a time."""
    axis, (scale, inverse) = _axis(scene), _scales(scene)
    if axis is None:
        return None
    coefficient, logarithmic = float32(scale * LOG2_E), scene.node.op == "LogSoftmax"

    def rule(values: Values) -> AnyArray:
        stored = np.moveaxis(_given(values).astype(np.int64), axis, -1)
        below = (stored - stored.max(-1, keepdims=True)).astype(float32)
        powers = exp2(below * coefficient)
        fastest = axis == stored.ndim - 1
        total = (in_turn(dotted(powers)) if fastest else in_turn(powers))[..., None]
        reals = below * scale - log2(total) * LN_2 if logarithmic else powers * (float32(1) / total)
        return np.moveaxis(_stored(scene, reals * inverse), -1, axis)

    return rule


def _parameters(scene: Scene, count: int) -> list[AnyArray] | None:
    """Return constant float inputs behind the first, or None."""
    found = [scene.graph.constants.get(name) for name in scene.node.inputs[1 : 1 + count]]
    if len(found) < count or any(value is None or value.dtype != float32 for value in found):
        return None
    return [value.reshape(-1) for value in found if value is not None]


def _batch(scene: Scene) -> Rule | None:
    """Return BatchNormalization: one factor and one term a channel, prepared in float32."""
    given, rank, (scale, inverse) = _parameters(scene, 4), scene.kind(0).rank, _scales(scene)
    if given is None or rank is None:
        return None
    gain, shift, mean, variance = given
    weight = gain / np.sqrt(variance + float32(scene.node.number("epsilon", 1e-5)))
    shape = (1, -1) + (1,) * (rank - 2)
    factor = (weight * scale * inverse).reshape(shape)
    term = ((shift - mean * weight) * inverse).reshape(shape)
    return lambda values: _stored(scene, _given(values).astype(float32) * factor + term)


_LANES, _THREADS = 8, 16


def _instance(scene: Scene) -> Rule | None:
    """Return InstanceNormalization `[N, C, H, W]`: columns of eight, sixteen threads; results are cut towards zero."""
    given, (scale, inverse) = _parameters(scene, 2), _scales(scene)
    if given is None or scene.kind(0).rank != 4:
        return None
    gain, shift = given
    epsilon = float32(scene.node.number("epsilon", 1e-5))

    def total(chunks: AnyArray, factor: np.float32) -> AnyArray:
        columns = in_turn(np.moveaxis(cut_single(chunks.sum(-1)), 2, -1)) * factor
        return in_turn(in_turn(dotted(grouped(columns, _THREADS))))

    def rule(values: Values) -> AnyArray:
        stored = _given(values)
        chunks = grouped(stored.astype(np.int64), _LANES)
        share = float32(1.0 / (stored.shape[2] * stored.shape[3]))
        mean = total(chunks, scale) * share
        variance = total(chunks * chunks, float32(scale * scale)) * share - mean * mean + epsilon
        weight = gain * inverse_root(variance)
        factor, term = float32(scale * inverse) * weight, (shift - weight * mean) * inverse
        steps = stored.astype(float32) * factor[..., None, None] + term[..., None, None]
        return _stored(scene, np.trunc(steps))

    return rule


def _layer(scene: Scene) -> Rule | None:
    """Return LayerNormalization along the last axis.

    The kernel adds epsilon to the variance of stored steps, not of reals: with steps below 1 it is as good as nothing.
    """
    given, axis, (_, inverse) = _parameters(scene, 2), _axis(scene), _scales(scene)
    if given is None or axis is None or axis != (scene.kind(0).rank or 0) - 1:
        return None
    gain, shift = given
    epsilon = float32(scene.node.number("epsilon", 1e-5))

    def rule(values: Values) -> AnyArray:
        stored = _given(values)
        chunks, share = grouped(stored.astype(np.int64), _LANES), float32(1) / float32(stored.shape[-1])
        mean = in_turn(cut_single(chunks.sum(-1))) * share
        variance = in_turn(cut_single((chunks * chunks).sum(-1))) * share - mean * mean + epsilon
        factor = gain * inverse_root(variance)[..., None]
        return _stored(scene, (factor * (stored.astype(float32) - mean[..., None]) + shift) * inverse)

    return rule


def _length(scene: Scene) -> Rule | None:
    """Return LpNormalization with p = 2: along the fastest axis sixteen squares are added exactly, then two sums."""
    axis, (_, inverse) = _axis(scene), _scales(scene)
    if axis is None or scene.node.integer("p", 2) != 2:
        return None

    def rule(values: Values) -> AnyArray:
        stored = np.moveaxis(_given(values).astype(np.int64), axis, -1)
        squares = stored * stored
        if axis == stored.ndim - 1:
            total = in_turn(in_turn(grouped(cut_single(grouped(squares, 16).sum(-1)), 2)))
        else:
            total = in_turn(cut_single(squares))
        factor = inverse_root(np.maximum(total, _TINY)) * inverse
        return np.moveaxis(_stored(scene, stored.astype(float32) * factor[..., None]), -1, axis)

    return rule


_TINY = float32(1e-12)


def _resize(scene: Scene) -> Rule | None:
    """Return a bilinear Resize `[N, C, H, W]` at half pixels: columns first, then rows."""
    node, (scale, inverse) = scene.node, _scales(scene)
    sizes, made = one_sample(scene.kind(0)), one_sample(scene.made)
    plain = node.text("mode", "nearest") == "linear" and not node.integer("antialias", 0)
    half = node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    if not plain or not half or sizes is None or made is None or len(sizes) != 4 or sizes[:2] != made[:2]:
        return None
    rows, columns = (_places(sizes[axis], made[axis]) for axis in (2, 3))

    def rule(values: Values) -> AnyArray:
        stored = _given(values).astype(float32)
        left, right = stored[..., columns[0]], stored[..., columns[1]]
        lines = (right - left) * columns[2] + left
        top, bottom = lines[:, :, rows[0]], lines[:, :, rows[1]]
        return _stored(scene, ((bottom - top) * rows[2][:, None] + top) * float32(scale * inverse))

    return rule


def _places(size: int, made: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return for each output element both neighbours and the share of the second."""
    half = float32(0.5)
    at = (np.arange(made).astype(float32) + half) * (float32(size) / float32(made)) - half
    low = np.floor(at)
    low_index, high_index = (np.clip(edge, 0, size - 1).astype(np.int64) for edge in (low, np.ceil(at)))
    return low_index, high_index, at - low


_MAKERS: dict[str, Callable[[Scene], Rule | None]] = {
    **dict.fromkeys(FUNCTIONS, _unary),
    "BatchNormalization": _batch,
    "InstanceNormalization": _instance,
    "LayerNormalization": _layer,
    "LogSoftmax": _soft,
    "LpNormalization": _length,
    "Resize": _resize,
    "Softmax": _soft,
}
