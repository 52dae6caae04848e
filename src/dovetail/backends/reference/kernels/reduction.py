"""Reductions over axes; axes are input 1 as since opset 18."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernel, Kernels, axes_of, axis_of
from dovetail.ir import AnyArray

_Reduction = Callable[[AnyArray, tuple[int, ...], bool], AnyArray]


def _reduce(function: _Reduction) -> Kernel:
    def kernel(call: Call) -> tuple[AnyArray, ...]:
        axes = call.sizes(1)
        if axes is None and "axes" in call.node.attributes:
            axes = call.node.integers("axes")
        if not axes:
            if call.node.integer("noop_with_empty_axes", 0):
                # An empty list of axes reduces nothing, but the rest of the formula still applies.
                return (function(call.x, (), True),)
            axes = None
        keep = bool(call.node.integer("keepdims", 1))
        return (function(call.x, axes_of(axes, call.x.ndim), keep),)

    return kernel


def _sum(x: AnyArray, axes: tuple[int, ...], keep: bool) -> AnyArray:
    return np.asarray(np.sum(x, axis=axes, keepdims=keep, dtype=x.dtype))


def _max(x: AnyArray, axes: tuple[int, ...], keep: bool) -> AnyArray:
    lowest: object = False if x.dtype.kind == "b" else -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return np.asarray(np.max(x, axis=axes, keepdims=keep, initial=lowest))  # type: ignore[call-overload]


def _min(x: AnyArray, axes: tuple[int, ...], keep: bool) -> AnyArray:
    highest: object = True if x.dtype.kind == "b" else np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max
    return np.asarray(np.min(x, axis=axes, keepdims=keep, initial=highest))  # type: ignore[call-overload]


def _mean(x: AnyArray, axes: tuple[int, ...], keep: bool) -> AnyArray:
    mean = np.asarray(np.mean(x, axis=axes, keepdims=keep))
    return mean if x.dtype.kind == "f" else np.trunc(mean).astype(x.dtype)


def _prod(x: AnyArray, axes: tuple[int, ...], keep: bool) -> AnyArray:
    return np.asarray(np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype))


def _l2(x: AnyArray, axes: tuple[int, ...], keep: bool) -> AnyArray:
    return np.sqrt(_sum(np.asarray(x * x), axes, keep).astype(np.float64)).astype(x.dtype)


def _log_sum_exp(x: AnyArray, axes: tuple[int, ...], keep: bool) -> AnyArray:
    top = _max(x.astype(np.float64), axes, True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(_sum(np.exp(x - top), axes, True)) + top
    result = total if keep else np.squeeze(total, axis=axes)
    return result.astype(x.dtype)


def _arg(function: Callable[..., AnyArray]) -> Kernel:
    def kernel(call: Call) -> tuple[AnyArray, ...]:
        x, axis = call.x, axis_of(call.node.integer("axis", 0), call.x.ndim)
        keep = bool(call.node.integer("keepdims", 1))
        if not call.node.integer("select_last_index", 0):
            return (function(x, axis=axis, keepdims=keep).astype(np.int64),)
        last = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis, keepdims=keep)
        return (last.astype(np.int64),)

    return kernel


KERNELS: Kernels = {
    "ArgMax": _arg(np.argmax),
    "ArgMin": _arg(np.argmin),
    "ReduceL1": _reduce(lambda x, axes, keep: _sum(np.abs(x), axes, keep)),
    "ReduceL2": _reduce(_l2),
    "ReduceLogSum": _reduce(lambda x, axes, keep: np.log(_sum(x, axes, keep).astype(np.float64)).astype(x.dtype)),
    "ReduceLogSumExp": _reduce(_log_sum_exp),
    "ReduceMax": _reduce(_max),
    "ReduceMean": _reduce(_mean),
    "ReduceMin": _reduce(_min),
    "ReduceProd": _reduce(_prod),
    "ReduceSum": _reduce(_sum),
    "ReduceSumSquare": _reduce(lambda x, axes, keep: _sum(np.asarray(x * x), axes, keep)),
}
