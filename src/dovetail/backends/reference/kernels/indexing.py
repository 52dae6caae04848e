"""Operators that read or write at computed positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels, axis_of
from dovetail.ir import AnyArray


def _gather(call: Call) -> tuple[AnyArray, ...]:
    return (np.take(call.input(0), call.input(1), axis=axis_of(call.node.integer("axis", 0), call.x.ndim)),)


def _gather_elements(call: Call) -> tuple[AnyArray, ...]:
    x, indices = call.input(0), call.input(1)
    axis = axis_of(call.node.integer("axis", 0), x.ndim)
    return (x[_along(indices, x.shape[axis], axis)],)


def _along(indices: AnyArray, size: int, axis: int) -> tuple[AnyArray, ...]:
    """Return the index of every element, with the given indices on one axis."""
    grid: list[AnyArray] = list(np.indices(indices.shape))
    grid[axis] = np.where(indices < 0, indices + size, indices)
    return tuple(grid)


def _gather_nd(call: Call) -> tuple[AnyArray, ...]:
    x, indices, batch = call.input(0), call.input(1), call.node.integer("batch_dims", 0)
    lead = x.shape[:batch]
    flat = x.reshape(-1, *x.shape[batch:])
    places = indices.reshape(flat.shape[0], -1, indices.shape[-1])
    rows = [flat[row][tuple(np.moveaxis(places[row], -1, 0))] for row in range(flat.shape[0])]
    tail = x.shape[batch + indices.shape[-1] :]
    result = np.stack(rows) if rows else np.zeros((0,), x.dtype)
    return (result.reshape(*lead, *indices.shape[batch:-1], *tail),)


_COMBINE: dict[str, Callable[..., object]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _write(target: AnyArray, place: tuple[AnyArray, ...], updates: AnyArray, reduction: str) -> None:
    """Write updates, in order; with a reduction, every one of a repeated index counts."""
    if reduction == "none":
        target[place] = updates
    else:
        ufunc = _COMBINE[reduction]
        assert isinstance(ufunc, np.ufunc)
        ufunc.at(target, place, updates)


def _scatter_elements(call: Call) -> tuple[AnyArray, ...]:
    result, indices, updates = call.input(0).copy(), call.input(1), call.input(2)
    axis = axis_of(call.node.integer("axis", 0), result.ndim)
    place = _along(indices, result.shape[axis], axis)
    _write(result, place, updates, call.node.text("reduction", "none"))
    return (result,)


def _scatter_nd(call: Call) -> tuple[AnyArray, ...]:
    result, indices, updates = call.input(0).copy(), call.input(1), call.input(2)
    place = tuple(np.moveaxis(indices, -1, 0))
    _write(result, place, updates, call.node.text("reduction", "none"))
    return (result,)


def _one_hot(call: Call) -> tuple[AnyArray, ...]:
    indices, depth, values = call.input(0), int(call.scalar(1, 0)), call.input(2)
    axis = axis_of(call.node.integer("axis", -1), indices.ndim + 1)
    wrapped = np.where(indices < 0, indices + depth, indices)
    shape = [1] * (indices.ndim + 1)
    shape[axis] = depth
    hot = np.expand_dims(wrapped, axis) == np.arange(depth).reshape(shape)
    return (np.where(hot, values[1], values[0]),)


def _compress(call: Call) -> tuple[AnyArray, ...]:
    x, condition = call.input(0), call.input(1)
    if "axis" not in call.node.attributes:
        x = x.reshape(-1)
    axis = axis_of(call.node.integer("axis", 0), x.ndim)
    return (np.compress(condition, x, axis=axis),)


def _non_zero(call: Call) -> tuple[AnyArray, ...]:
    return (np.array(np.nonzero(call.x), dtype=np.int64).reshape(call.x.ndim, -1),)


def _top_k(call: Call) -> tuple[AnyArray, ...]:
    """Return the k first values in order; equal values keep the order of their indices."""
    x, count = call.input(0), int(call.scalar(1, 1))
    axis = axis_of(call.node.integer("axis", -1), x.ndim)
    if call.node.integer("largest", 1):
        # A stable descending order is a stable ascending order of the reversed axis, read backwards.
        order = x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = np.flip(order, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    order = np.take(order, range(count), axis=axis)
    return np.take_along_axis(x, order, axis=axis), order.astype(np.int64)


def _unique(call: Call) -> tuple[AnyArray, ...]:
    x = call.x
    axis = axis_of(call.node.integer("axis", 0), x.ndim) if "axis" in call.node.attributes else None
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.node.integer("sorted", 1):
        order = np.argsort(first, kind="stable")
        rank = np.argsort(order, kind="stable")
        values, first, counts = np.take(values, order, axis=axis or 0), first[order], counts[order]
        inverse = rank[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


KERNELS: Kernels = {
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TopK": _top_k,
    "Unique": _unique,
}
