"""Operators that move values: they work on stored integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given
from dovetail.backends.verisilicon.emulator.storing import store_of
from dovetail.backends.verisilicon.views import OperatorView
from dovetail.ir import AnyArray

_PAD_MODES = {0: "constant", 1: "edge", 3: "reflect"}
"""numpy's names of the shim's codes."""


def build_reshape(item: OperatorView) -> Kernel:
    """Return the same values in another shape."""
    shape = item.made_shape()
    return lambda values: given(values).reshape(len(given(values)), *shape)


def build_transpose(item: OperatorView) -> Kernel:
    """Return values in another order of axes."""
    rank = len(item.ints)
    order = (0, *(1 + rank - 1 - axis for axis in reversed(item.ints)))
    return lambda values: np.ascontiguousarray(np.transpose(given(values), order))


def _slices(begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> tuple[slice, ...]:
    """Return the slices of all axes, samples first, from bounds in the vendor's order."""
    found = [slice(begin, end, step) for begin, end, step in zip(begins, ends, steps, strict=True)]
    return (slice(None), *reversed(found))


def build_slice(item: OperatorView) -> Kernel:
    """Return a part of every axis."""
    rank = len(item.ints) // 3
    parts = _slices(item.ints[:rank], item.ints[rank : 2 * rank], item.ints[2 * rank :])
    return lambda values: np.ascontiguousarray(given(values)[parts])


def build_reverse(item: OperatorView) -> Kernel:
    """Return some axes backwards."""
    axes = tuple(-1 - axis for axis in item.ints)
    return lambda values: np.ascontiguousarray(np.flip(given(values), axes))


def build_pad(item: OperatorView) -> Kernel:
    """Return values with some around them."""
    mode, rank = _PAD_MODES[item.ints[0]], (len(item.ints) - 1) // 2
    front, back = item.ints[1 : 1 + rank], item.ints[1 + rank :]
    widths = [(0, 0), *((low, high) for low, high in zip(reversed(front), reversed(back), strict=True))]
    if mode != "constant":
        return lambda values: np.pad(given(values), widths, mode=mode)  # type: ignore[call-overload]
    fill: AnyArray = np.array([item.floats[0]])
    if item.made().quant is not None:
        fill = store_of(item).from_reals(fill)
    return lambda values: np.pad(given(values), widths, constant_values=fill[0])


def build_tile(item: OperatorView) -> Kernel:
    """Return values repeated along every axis."""
    times = (1, *reversed(item.ints))
    return lambda values: np.tile(given(values), times)


def build_depth_to_space(item: OperatorView) -> Kernel:
    """Return channels spread over rows and columns."""
    block, columns_first = item.ints

    def run(values: Values) -> AnyArray:
        value = given(values)
        *lead, channels, height, width = value.shape
        split = (channels // block**2, block, block) if columns_first else (block, block, channels // block**2)
        parts = value.reshape(-1, *split, height, width)
        order = (0, 1, 4, 2, 5, 3) if columns_first else (0, 3, 4, 1, 5, 2)
        return parts.transpose(order).reshape(*lead, channels // block**2, height * block, width * block)

    return run


def build_space_to_depth(item: OperatorView) -> Kernel:
    """Return blocks of rows and columns gathered as channels."""
    (block,) = item.ints

    def run(values: Values) -> AnyArray:
        value = given(values)
        *lead, channels, height, width = value.shape
        parts = value.reshape(-1, channels, height // block, block, width // block, block)
        turned = parts.transpose(0, 3, 5, 1, 2, 4)
        return turned.reshape(*lead, channels * block**2, height // block, width // block)

    return run


def build_gather(item: OperatorView) -> Kernel:
    """Return slices of an axis by their numbers."""
    axis, indices = -1 - item.ints[0], item.constant(1)
    assert indices is not None
    taken = indices.reshape(-1)
    return lambda values: np.take(given(values), taken, axis)


def build_gather_elements(item: OperatorView) -> Kernel:
    """Return elements of an axis by their numbers."""
    axis, indices = -1 - item.ints[0], item.constant(1)
    assert indices is not None
    taken = indices[None].astype(np.int64)

    def run(values: Values) -> AnyArray:
        value = given(values)
        return np.take_along_axis(value, np.broadcast_to(taken, (len(value), *taken.shape[1:])), axis)

    return run


MOVING: dict[str, Callable[[OperatorView], Kernel]] = {
    "depth_to_space": build_depth_to_space,
    "gather": build_gather,
    "gather_elements": build_gather_elements,
    "pad": build_pad,
    "reshape": build_reshape,
    "reverse": build_reverse,
    "space_to_depth": build_space_to_depth,
    "strided_slice": build_slice,
    "tile": build_tile,
    "transpose": build_transpose,
}
"""Operators of this module by the shim's names."""
