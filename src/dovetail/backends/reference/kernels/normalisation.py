"""Normalisations."""

from __future__ import annotations

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels, axis_of
from dovetail.ir import AnyArray


def _per_channel(values: AnyArray, rank: int) -> AnyArray:
    return values.reshape(1, -1, *(1,) * (rank - 2))


def _standardise(x: AnyArray, axes: tuple[int, ...], epsilon: float) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the normalised values, the mean and the inverse deviation."""
    mean = np.mean(x, axis=axes, keepdims=True)
    inverse = 1.0 / np.sqrt(np.mean((x - mean) ** 2, axis=axes, keepdims=True) + epsilon)
    return (x - mean) * inverse, mean, inverse


def _batch(call: Call) -> tuple[AnyArray, ...]:
    x, rank = call.x, call.x.ndim
    scale, bias, mean, variance = (call.input(index) for index in range(1, 5))
    epsilon = call.node.number("epsilon", 1e-5)
    results: tuple[AnyArray, ...] = ()
    if call.node.integer("training_mode", 0):
        momentum = call.node.number("momentum", 0.9)
        axes = (0, *range(2, rank))
        batch_mean, batch_variance = np.mean(x, axis=axes), np.var(x, axis=axes)
        running = (mean * momentum + batch_mean * (1 - momentum), variance * momentum + batch_variance * (1 - momentum))
        results, mean, variance = running, batch_mean, batch_variance
    factor = scale / np.sqrt(variance + epsilon)
    y = (x - _per_channel(mean, rank)) * _per_channel(factor, rank) + _per_channel(bias, rank)
    return (y, *results)


def _instance(call: Call) -> tuple[AnyArray, ...]:
    x, rank = call.x, call.x.ndim
    y, _, _ = _standardise(x, tuple(range(2, rank)), call.node.number("epsilon", 1e-5))
    return (y * _per_channel(call.input(1), rank) + _per_channel(call.input(2), rank),)


def _layer(call: Call) -> tuple[AnyArray, ...]:
    axis = axis_of(call.node.integer("axis", -1), call.x.ndim)
    axes = tuple(range(axis, call.x.ndim))
    y, mean, inverse = _standardise(call.x, axes, call.node.number("epsilon", 1e-5))
    y = y * call.input(1)
    bias = call.optional(2)
    return (y if bias is None else y + bias), mean, inverse


def _group(call: Call) -> tuple[AnyArray, ...]:
    """Normalise groups of channels; scale and bias are one a channel (opset 21)."""
    x, rank, groups = call.x, call.x.ndim, call.node.integer("num_groups", 1)
    parts = x.reshape(x.shape[0], groups, -1)
    y, _, _ = _standardise(parts, (2,), call.node.number("epsilon", 1e-5))
    return (y.reshape(x.shape) * _per_channel(call.input(1), rank) + _per_channel(call.input(2), rank),)


def _local_response(call: Call) -> tuple[AnyArray, ...]:
    x, size = call.x, call.node.integer("size", 1)
    alpha, beta, bias = (
        call.node.number("alpha", 1e-4),
        call.node.number("beta", 0.75),
        call.node.number("bias", 1.0),
    )
    before = (size - 1) // 2
    widths = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
    squares = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, widths), size, axis=1).sum(axis=-1)
    return (x / (bias + alpha / size * squares) ** beta,)


def _lp(call: Call) -> tuple[AnyArray, ...]:
    """Divide by the norm along one axis; zeros stay zeros."""
    x, axis = call.x, axis_of(call.node.integer("axis", -1), call.x.ndim)
    order = call.node.integer("p", 2)
    norm = np.sum(np.abs(x) ** order, axis=axis, keepdims=True) ** (1.0 / order)
    return (np.divide(x, norm, out=np.zeros_like(x), where=norm != 0),)


def _mean_variance(call: Call) -> tuple[AnyArray, ...]:
    axes = call.node.integers("axes", (0, 2, 3))
    mean = np.mean(call.x, axis=axes, keepdims=True)
    deviation = np.sqrt(np.mean(call.x**2, axis=axes, keepdims=True) - mean**2)
    return ((call.x - mean) / (deviation + 1e-9),)


def _dropout(call: Call) -> tuple[AnyArray, ...]:
    """Pass values on: training is refused when compiling."""
    return call.x, np.ones(call.x.shape, np.bool_)


KERNELS: Kernels = {
    "BatchNormalization": _batch,
    "Dropout": _dropout,
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "LRN": _local_response,
    "LayerNormalization": _layer,
    "LpNormalization": _lp,
    "MeanVarianceNormalization": _mean_variance,
}
