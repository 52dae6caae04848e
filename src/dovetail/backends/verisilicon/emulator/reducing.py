"""Reductions along axes, running sums and places of the largest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.averages import array_average, average_of
from dovetail.backends.verisilicon.emulator.converting import requantised
from dovetail.backends.verisilicon.emulator.elementwise import finished
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.emulator.singles import in_turn
from dovetail.backends.verisilicon.emulator.storing import centred, reals_of, store_of, stored_from
from dovetail.backends.verisilicon.emulator.tables import scales_of, squares
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.program import Route
from dovetail.backends.verisilicon.reductions import merged
from dovetail.backends.verisilicon.views import OperatorView, scale_of
from dovetail.ir import AnyArray, DType

_MEAN, _MAXIMUM, _MINIMUM, _SUM, _PRODUCT = range(5)
"""The shim's codes of reductions."""
_OUTERMOST = (2, 3)
"""Axes, the fastest first, that a part with a stream processor reduces one after the other where both are alone."""
_MOST_HALF, _LEAST_HALF = float(np.finfo(np.float16).max), float(np.finfo(np.float16).smallest_normal)


def _axes(item: OperatorView, ints: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-1 - axis for axis in ints)


def build_reduction(item: OperatorView) -> Kernel:
    """Return a mean, a sum, a product or an extreme over axes, which stay with one element."""
    code, axes, shape = item.ints[0], _axes(item, item.ints[2:]), item.made_shape()
    if item.operator.route is Route.ARRAY:
        return array_average(average_of(item))
    if code in (_MAXIMUM, _MINIMUM):
        pick, store = (np.max if code == _MAXIMUM else np.min), requantised(item)
        return lambda values: _shaped(store(pick(given(values), axis=axes, keepdims=True)), shape)
    if code != _PRODUCT and item.is_stored:
        return _total(item)

    reduce = np.multiply if code == _PRODUCT else np.add
    stages = _stages(item) if code == _PRODUCT and item.is_stored else [axes]
    count = math.prod(item.shape()[axis] for axis in axes) if code == _MEAN else 1

    def run(values: Values) -> AnyArray:
        reals = reals_of(given(values), item.kind())
        with np.errstate(all="ignore"):
            for stage in stages[:-1]:
                reals = _half(reduce.reduce(reals, axis=stage, keepdims=True))
            return _shaped(finished(item, reduce.reduce(reals, axis=stages[-1], keepdims=True) / count), shape)

    return run


def _shaped(value: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    return value.reshape(len(value), *shape)


def _stages(item: OperatorView) -> Sequence[tuple[int, ...]]:
    """Return the axes, from the last, of each operator that the vendor's library makes of a reduction."""
    seen = merged(item.shape()[::-1], item.ints[2:])
    if item.generation is Generation.STREAM and seen.axes == (_OUTERMOST,) and len(item.shape()) > max(_OUTERMOST):
        return [_axes(item, (axis,)) for axis in _OUTERMOST]
    return [_axes(item, stage) for stage in seen.stages(mean=item.ints[0] == _MEAN)]


def _half(reals: AnyArray) -> AnyArray:
    """Return real numbers as they are stored between the operators of a reduction.

    What half precision has no normal number for is its largest, or 0.
    """
    held = np.clip(reals, -_MOST_HALF, _MOST_HALF).astype(float32).astype(np.float16).astype(np.float64)
    return np.where(np.abs(held) < _LEAST_HALF, 0.0, held)


def _total(item: OperatorView) -> Kernel:
    """Return a sum or a mean of integers: the total is exact, but for what is stored in half precision in between."""
    stages = _stages(item)
    counts = [1 if item.ints[0] == _SUM else math.prod(item.shape()[one] for one in axes) for axes in stages]
    scale, store = scale_of(item.kind()), store_of(item, exact=item.ints[0] == _MEAN)

    def run(values: Values) -> AnyArray:
        terms = centred(given(values), item.kind())
        if len(stages) == 1:
            reals = terms.sum(axis=stages[0], keepdims=True) / counts[0] * scale
            return _shaped(store.from_reals(np.asarray(reals)), item.made_shape())
        reals = terms * scale
        with np.errstate(over="ignore", invalid="ignore"):
            for place, (axes, count) in enumerate(zip(stages, counts, strict=True)):
                held = _half(reals) if place else reals
                reals = held.sum(axis=axes, keepdims=True).astype(float32) * float32(1.0 / count)
        return _shaped(store.from_reals(np.asarray(reals, np.float64)), item.made_shape())

    return run


def build_length(item: OperatorView) -> Kernel:
    """Return Euclidean lengths: squares, their sum and its root, with floats stored in between.

    Squares of bytes come from the tensor processor's table and are stored in half precision, at most its largest
    number, those of 16 bits in float32; what is stored at the end is cut, not rounded. Checked on the simulator
    with rows of bytes and of 16 bits: equal on each of 18992 lengths, over one axis and over two.
    """
    wide = item.kind().dtype is DType.I16
    # The roots of the newest parts are tables of their own, which are not known.
    unknown = item.generation is Generation.STREAM or (wide and item.generation is Generation.VIP9000_PLUS)
    if unknown or not item.is_stored or item.kind().dtype is not item.made().dtype:
        return _exact_length(item)
    scale, inverse = scale_of(item.kind()), float32(1.0 / scale_of(item.made()))
    blocks, scales = _blocks(_axes(item, item.ints[1:])), replace(scales_of(item)[0], scale_in=scale)

    def run(values: Values) -> AnyArray:
        steps = centred(given(values), item.kind())
        if wide:
            total = np.square(steps.astype(float32) * float32(scale))
        else:
            total = np.minimum(squares(steps.astype(np.float64), scales), _MOST_HALF).astype(np.float16).astype(float32)
        for block in blocks:
            total = _added(total, block)
        steps = np.floor(np.sqrt(total) * inverse).astype(np.float64)
        return _shaped(stored_from(steps, item.made()), item.made_shape())

    return run


def _exact_length(item: OperatorView) -> Kernel:
    axes = _axes(item, item.ints[1:])

    def run(values: Values) -> AnyArray:
        reals = reals_of(given(values), item.kind())
        return _shaped(finished(item, np.sqrt(np.square(reals).sum(axis=axes, keepdims=True))), item.made_shape())

    return run


def _blocks(axes: tuple[int, ...]) -> list[list[int]]:
    """Return axes in runs of neighbours, the fastest run first: each run is one sum."""
    blocks: list[list[int]] = []
    for axis in sorted(axes):
        if blocks and blocks[0][-1] == axis - 1:
            blocks[0].append(axis)
        else:
            blocks.insert(0, [axis])
    return blocks


def _added(values: AnyArray, block: list[int]) -> AnyArray:
    """Add float32 over neighbouring axes, one after another; the axes stay with one element."""
    shape, first, last = values.shape, values.ndim + block[0], values.ndim + block[-1]
    rows = values.reshape(*shape[:first], -1, *shape[last + 1 :])
    total = in_turn(np.moveaxis(rows, first, -1))
    return total.reshape(*shape[:first], *(1 for _ in block), *shape[last + 1 :])


def build_place(item: OperatorView) -> Kernel:
    """Return the place of the largest or the smallest along an axis, the first of several."""
    axis, carrier, shape = -1 - item.ints[0], item.made().dtype.carrier, item.made_shape()
    find = np.argmax if item.operator.kind == "argmax" else np.argmin

    def run(values: Values) -> AnyArray:
        # Of order nothing is lost in stored integers.
        return _shaped(np.asarray(find(given(values), axis)).astype(carrier), shape)

    return run


def build_running_sum(item: OperatorView) -> Kernel:
    """Return the sums of everything before, and of the element itself unless that is left out."""
    axis, exclusive, backward = -1 - item.ints[0], bool(item.ints[1]), bool(item.ints[2])

    stored, scale = item.is_stored, scale_of(item.kind()) if item.is_stored else 1.0

    def run(values: Values) -> AnyArray:
        terms = centred(given(values), item.kind()) if stored else reals_of(given(values), item.kind())
        turned = np.flip(terms, axis) if backward else terms
        total = np.cumsum(turned, axis)
        if exclusive:
            total = total - turned
        return finished(item, (np.flip(total, axis) if backward else total) * scale)

    return run


REDUCING: dict[str, Callable[[OperatorView], Kernel]] = {
    "argmax": build_place,
    "argmin": build_place,
    "cumsum": build_running_sum,
    "reduce": build_reduction,
    "reduce_l2": build_length,
}
"""Operators of this module by the shim's names."""
