"""Random operators between others: what makes their inputs, and what reads their result.

A vendor's compiler joins, moves and drops operators by their neighbours; few nodes show that sooner than a network.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail.testing.operator_case import Data, Exactly, Fixed, Operand
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth, UnfitError, grown
from dovetail.testing.wild.table import wild_operator

Producer = Callable[[Growth, tuple[int, ...]], str]
Reader = Callable[[Growth, str], str]

_LEAST, _MOST = 0.05, 200.0
"""The sizes of what goes in: here is no place for ranges that nothing has."""
_IMAGE = 4
_ACTIVATIONS = ("Clip", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh")
_ATTEMPTS = 6


def wild_trio(op: str, seed: int) -> WildCase | None:
    """Return an operator between drawn neighbours, the same for the same seed; None where none of them fit."""

    def grow(growth: Growth, attempt: int) -> None:
        _grow(growth, op, seed, dressed=attempt < _ATTEMPTS - 1)

    return grown(seed, _ATTEMPTS, grow)


def _grow(growth: Growth, op: str, seed: int, *, dressed: bool) -> None:
    case = wild_operator(op, seed)
    if len(case.outputs) != 1:
        raise UnfitError
    inputs = tuple(_operand(growth, operand, dressed=dressed) for operand in case.operands)
    made = growth.op("Identity" if case.is_boundary else op, *inputs, **case.attributes)
    for _ in range(growth.draw.pick(0, 1, 1, 2) if dressed else 0):
        made = growth.draw.pick(*READERS)(growth, made)


def _operand(growth: Growth, operand: Operand, *, dressed: bool) -> str:
    """Return the name of an operand; a tensor is an input, or what an operator makes of others."""
    match operand:
        case Data(shape, low, high):
            if dressed and growth.draw.chance(0.7):
                return growth.draw.pick(*PRODUCERS)(growth, shape)
            return given(growth, shape, low, high)
        case Fixed(shape, low, high):
            return growth.constant(growth.rng.uniform(low, high, shape))
        case Exactly(values, dtype, shape):
            name = growth.constant(0)
            shape = (len(values),) if shape is None else shape
            growth.constants[name] = np.array(values, dtype.carrier).reshape(shape)
            return name
    return ""


def given(growth: Growth, shape: tuple[int, ...], low: float = 0.0, high: float = 0.0) -> str:
    """Add an input of a range, or of a drawn one."""
    name = growth.input(*shape)
    if low == high:
        share, high = growth.draw.pick(0.0, -1.0, -0.4), growth.draw.pick(0.2, 1.0, 6.0)
        low = share * high
    size = max(abs(low), abs(high))
    factor = 1.0 if _LEAST <= size <= _MOST else 3.0 / size
    values = [growth.rng.uniform(low * factor, high * factor, shape) for _ in growth.values[name]]
    growth.values[name] = [value.astype(np.float32) for value in values]
    return name


def _turned(growth: Growth, shape: tuple[int, ...]) -> str:
    perm = tuple(int(axis) for axis in growth.rng.permutation(len(shape)))
    before = [0] * len(shape)
    for place, axis in enumerate(perm):
        before[axis] = shape[place]
    return growth.op("Transpose", given(growth, tuple(before)), perm=perm)


def _activated(growth: Growth, shape: tuple[int, ...]) -> str:
    return _activation(growth, given(growth, shape))


def _activation(growth: Growth, tensor: str) -> str:
    op = growth.draw.pick(*_ACTIVATIONS)
    bounds = (growth.constant(0.0), growth.constant(6.0)) if op == "Clip" else ()
    return growth.op(op, tensor, *bounds)


def _product(growth: Growth, shape: tuple[int, ...]) -> str:
    """Return a convolution or rows times a matrix."""
    inner = growth.draw.pick(3, 8, 16)
    if len(shape) == _IMAGE:
        return _convolution(growth, given(growth, (shape[0], inner, *shape[2:])), shape[1])
    if len(shape) < 2:
        raise UnfitError
    growth.spend(math.prod(shape) * inner)
    weight = growth.constant(growth.rng.normal(0.0, 0.4, (inner, shape[-1])))
    return growth.op("MatMul", given(growth, (*shape[:-1], inner)), weight)


def _convolution(growth: Growth, tensor: str, outer: int) -> str:
    batch, inner, *places = growth.shape(tensor)
    side = growth.draw.pick(1, 3)
    growth.spend(batch * inner * outer * side * side * math.prod(places))
    weight = growth.constant(growth.rng.normal(0.0, 0.3, (outer, inner, side, side)))
    bias = (growth.constant(growth.rng.normal(0.0, 0.2, outer)),) if growth.draw.chance(0.6) else ()
    return growth.op("Conv", tensor, weight, *bias, pads=(side // 2,) * 4, kernel_shape=(side, side))


def _reshaped(growth: Growth, shape: tuple[int, ...]) -> str:
    count = math.prod(shape)
    wide = growth.draw.pick(*(size for size in range(1, count + 1) if count % size == 0))
    before = growth.draw.pick((wide, count // wide), (1, wide, count // wide), (1, wide, count // wide, 1))
    return growth.op("Reshape", given(growth, before), growth.constant(list(shape)))


def _sliced(growth: Growth, shape: tuple[int, ...]) -> str:
    if not shape:
        raise UnfitError
    axis, more = growth.draw.whole(0, len(shape) - 1), growth.draw.whole(1, 3)
    start = growth.draw.whole(0, more)
    before = tuple(size + more * (place == axis) for place, size in enumerate(shape))
    places = ([start], [start + shape[axis]], [axis])
    return growth.op("Slice", given(growth, before), *(growth.constant(place) for place in places))


def _joined(growth: Growth, shape: tuple[int, ...]) -> str:
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes:
        raise UnfitError
    axis = growth.draw.pick(*axes)
    first = growth.draw.whole(1, shape[axis] - 1)
    parts = (
        tuple(size if place == axis else whole for place, whole in enumerate(shape))
        for size in (first, shape[axis] - first)
    )
    return growth.op("Concat", *(given(growth, part) for part in parts), axis=axis)


def _added(growth: Growth, shape: tuple[int, ...]) -> str:
    return growth.op(growth.draw.pick("Add", "Sub", "Mul"), given(growth, shape), given(growth, shape))


def _scaled(growth: Growth, shape: tuple[int, ...]) -> str:
    wide = (shape[1], *(1,) * (len(shape) - 2)) if len(shape) > 1 else (1,)
    value = growth.constant(growth.rng.normal(0.5, 0.4, growth.draw.pick(wide, ())))
    return growth.op(growth.draw.pick("Add", "Mul", "Sub"), given(growth, shape), value)


def _pooled(growth: Growth, shape: tuple[int, ...]) -> str:
    return _pool(growth, given(growth, shape))


def _pool(growth: Growth, tensor: str) -> str:
    if len(growth.shape(tensor)) != _IMAGE:
        raise UnfitError
    attributes = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1)}
    return growth.op(growth.draw.pick("MaxPool", "AveragePool"), tensor, **attributes)


def _shared(growth: Growth, shape: tuple[int, ...]) -> str:
    return growth.op("Softmax", given(growth, shape), axis=len(shape) - 1)


def _read_turned(growth: Growth, tensor: str) -> str:
    perm = tuple(int(axis) for axis in growth.rng.permutation(len(growth.shape(tensor))))
    return growth.op("Transpose", tensor, perm=perm)


def _read_flat(growth: Growth, tensor: str) -> str:
    count = math.prod(growth.shape(tensor))
    wide = growth.draw.pick(*(size for size in range(1, count + 1) if count % size == 0))
    return growth.op("Reshape", tensor, growth.constant(growth.draw.pick([wide, -1], [1, wide, -1], [1, wide, -1, 1])))


def _read_part(growth: Growth, tensor: str) -> str:
    axes = [axis for axis, size in enumerate(growth.shape(tensor)) if size > 1]
    if not axes:
        raise UnfitError
    axis = growth.draw.pick(*axes)
    start = growth.draw.whole(0, growth.shape(tensor)[axis] - 1)
    end = growth.draw.whole(start + 1, growth.shape(tensor)[axis])
    return growth.op("Slice", tensor, *(growth.constant([place]) for place in (start, end, axis)))


def _read_joined(growth: Growth, tensor: str) -> str:
    shape = growth.shape(tensor)
    if not shape:
        raise UnfitError
    other = growth.draw.pick(tensor, given(growth, shape))
    return growth.op(
        "Concat", *growth.draw.pick((tensor, other), (other, tensor)), axis=growth.draw.whole(0, len(shape) - 1)
    )


def _read_added(growth: Growth, tensor: str) -> str:
    other = growth.draw.pick(given, _activated, _turned, _product)(growth, growth.shape(tensor))
    return growth.op(growth.draw.pick("Add", "Mul", "Sub", "Max"), *growth.draw.pick((tensor, other), (other, tensor)))


def _read_gated(growth: Growth, tensor: str) -> str:
    return growth.op("Mul", tensor, growth.op("Sigmoid", tensor))


def _read_product(growth: Growth, tensor: str) -> str:
    shape = growth.shape(tensor)
    outer = growth.draw.pick(1, 4, 16)
    if len(shape) == _IMAGE:
        return _convolution(growth, tensor, outer)
    if len(shape) < 2:
        raise UnfitError
    growth.spend(math.prod(shape) * outer)
    return growth.op("MatMul", tensor, growth.constant(growth.rng.normal(0.0, 0.4, (shape[-1], outer))))


def _read_shared(growth: Growth, tensor: str) -> str:
    return growth.op("Softmax", tensor, axis=len(growth.shape(tensor)) - 1)


def _read_mean(growth: Growth, tensor: str) -> str:
    shape = growth.shape(tensor)
    if not shape:
        raise UnfitError
    axes = growth.constant([len(shape) - 1])
    return growth.op(growth.draw.pick("ReduceMean", "ReduceMax"), tensor, axes, keepdims=growth.draw.pick(0, 1))


PRODUCERS: tuple[Producer, ...] = (
    *(_turned, _activated, _product, _product, _reshaped, _sliced, _joined, _added, _scaled, _pooled, _shared),
)
"""What makes a tensor of a shape, of others."""
READERS: tuple[Reader, ...] = (
    *(_activation, _activation, _read_turned, _read_flat, _read_part, _read_joined, _read_added, _read_added),
    *(_read_gated, _read_product, _read_product, _read_shared, _read_mean, _pool),
)
"""What reads a tensor, and what it makes of it."""
