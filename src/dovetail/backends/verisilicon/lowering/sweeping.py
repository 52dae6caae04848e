"""Kernels, steps between their elements and strides that come out as garbage, and how they are got around.

Measured on A311D, most of it on RK1808, S905D3 and STM32MP2, too, and steps between on V853, A733 and i.MX 8M Plus.
Bytes with one scale for all weights, signed or not, have all of it; those with a scale per channel little.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.generation import CONVERTING, OLDEST, Generation
from dovetail.backends.verisilicon.lowering.padding import LONGEST_SWEPT
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.backends.verisilicon.windows import PlaneWindow
from dovetail.ir import AnyArray, DType, TensorType

_POINT, _PAIR = (1, 1), (1, 2)
_THIRD = (3, 3)
_MOST_PAIRED = 32
"""Channels of which a kernel of two neighbours in a row is right."""
_QUARTER, _HALF = (4, 4), (4, 2)
_LONG = 12
"""Elements along an axis from which on a kernel is garbage that reads more than `_MOST_READ` in all."""
_MOST_READ = 64
_FAR = 15
"""Elements that a kernel with steps between may span on newer parts."""


def fill_kernel(
    view: NodeView, value: AnyArray, weight: TensorType, window: PlaneWindow
) -> tuple[AnyArray, PlaneWindow]:
    """Return the weight of a convolution and its window; a kernel that is garbage gets a column of zeros more.

    One is that of two neighbours in a row of bytes where more than 32 channels go in, dense or not: 16 of 16 shapes on
    S905D3, 8 of 8 on A311D; two in a column, three in a row and two with steps between are right. The other is that of
    one element at 16 bits that steps by three along both axes: columns are missing, from the fifth on (all of 63 shapes
    on A311D; other steps, and two or three elements, are right).
    """
    pair = window.kernel == _PAIR and window.dilations[1] == 1
    paired = pair and _is_of_bytes(view, weight) and view.shape(0)[1] > _MOST_PAIRED
    point = window.kernel == _POINT and window.strides == _THIRD and weight.dtype is DType.I16
    missing = point and view.draft.part.generation is Generation.V7
    if not (paired or missing) or weight.quant is None:
        return value, window
    rows, (left, right) = window.paddings
    zeros = np.full((*value.shape[:3], 1), weight.quant.zero_point[0], value.dtype)
    kernel = (window.kernel[0], window.kernel[1] + 1)
    return np.concatenate([value, zeros], axis=3), replace(window, kernel=kernel, paddings=(rows, (left, right + 1)))


def even_steps(window: PlaneWindow) -> PlaneWindow:
    """Return a window with the steps of one axis along the other, where the kernel has one element there.

    Where they are uneven the compiler fills the kernel up with zeros, which is garbage of a scale per channel from 16
    elements on: on i.MX 8M Plus all of 56 windows, and of 141 with even steps none.
    """
    if window.strides != (1, 1) or min(window.kernel) > 1:
        return window
    step = max(step for step, size in zip(window.dilations, window.kernel, strict=True) if size == max(window.kernel))
    return replace(window, dilations=(step, step))


def check_reach(view: NodeView, data: int, weight: TensorType, window: PlaneWindow, *, depthwise: bool) -> None:
    """Refuse kernels that reach too far: most with steps between are filled up with zeros, which has limits.

    `data` is the tensor that is read, perhaps padded already.
    """
    generation, reach = view.draft.part.generation, [window.extent(axis) for axis in range(window.rank)]
    spread, stepped = tuple(reach) != window.kernel, window.strides != (1, 1)
    what = f"a kernel that spans {reach[0]} x {reach[1]} of {view.shape(0)[1]} channels"
    if weight.quant is None:
        return
    bytes_ = view.kind(0).dtype is not DType.I16 and not view.draft.fixed_point
    newer = generation not in (*OLDEST, Generation.VIP8000)
    even = all(len(set(sizes)) == 1 for sizes in (window.kernel, window.dilations, window.strides))
    sparse = depthwise and not (newer and even and max(reach) < _LONG)
    both = spread and stepped and (sparse or generation in OLDEST)
    told = f"a convolution with dilations {list(window.dilations)} and strides {list(window.strides)}"
    view.need(not both, f"{told} comes out as garbage (either alone is possible)")
    single = bytes_ and weight.quant.axis is None
    far = single and spread and stepped and max(reach) > _FAR and not even
    view.need(not far, f"{what}, with strides {list(window.strides)}, comes out as garbage ({_FAR} are possible)")
    uneven = spread and not stepped and min(window.dilations) == 1 and max(reach) > _FAR
    by_channel = bytes_ and not single and generation in CONVERTING
    view.need(not (uneven and by_channel), f"{what}, with steps along one axis only, comes out as garbage")
    if generation in OLDEST:
        _check_length(view, data, weight, window, depthwise=depthwise)
    dense = view.node.integer("group", 1) == 1
    if depthwise:
        _check_depthwise(view, weight, window)
    elif dense and single and generation in (*OLDEST, Generation.STREAM):
        _check_read(view, window, what)


def _check_read(view: NodeView, window: PlaneWindow, what: str) -> None:
    """Refuse dense kernels of bytes that reach far and read much; even steps between a square one are none.

    On A311D 24 of 24 kernels of 12 to 15 that read more and step by 1, and more than half of those with uneven steps.
    """
    reach = [window.extent(axis) for axis in range(window.rank)]
    old, spread = view.draft.part.generation in OLDEST, tuple(reach) != window.kernel
    far = _LONG - 1 if old else _FAR
    even = len({*window.dilations}) == len({*window.kernel}) == 1
    if (spread and even and window.strides == (1, 1)) or not (old or spread):
        return
    read = view.shape(0)[1] * reach[0] * reach[1]
    along = [span for span, stride in zip(reach, window.strides, strict=True) if stride == 1 or spread]
    fits = max(along, default=0) <= far or read <= _MOST_READ
    view.need(
        fits, f"{what}, {read} elements, comes out as garbage ({far} along an axis, or {_MOST_READ}, are possible)"
    )


def _check_length(view: NodeView, data: int, weight: TensorType, window: PlaneWindow, *, depthwise: bool) -> None:
    """Refuse convolutions along axes that are too long for the array where the vendor's shader is wrong, too.

    Measured on A311D, RK1808 and S905D3, along rows and columns: bytes with one scale are garbage there from the next
    read on, and what only its padding makes too long is garbage at its edges.
    """
    sizes = view.draft.tensors[data].shape[1::-1]
    padded = max(size + sum(pads) for size, pads in zip(sizes, window.paddings, strict=True))
    if padded <= LONGEST_SWEPT:
        return
    told, bare = f"({LONGEST_SWEPT} are possible)", max(sizes)
    view.need(
        bare > LONGEST_SWEPT,
        f"a convolution over {bare} elements, padded to {padded}, comes out as garbage at its edges {told}",
    )
    view.need(not depthwise, f"a depthwise convolution over {bare} elements does not compile {told}")
    read = view.shape(0)[1] // view.node.integer("group", 1) * math.prod(window.kernel)
    single = view.kind(0).dtype is not DType.I16 and weight.quant is not None and weight.quant.axis is None
    view.need(
        read <= _MOST_READ or not single,
        f"a kernel that reads {read} elements over {bare} comes out as garbage ({LONGEST_SWEPT} are possible, or to "
        f"read {_MOST_READ} over as many as there are)",
    )


def _check_depthwise(view: NodeView, weight: TensorType, window: PlaneWindow) -> None:
    """Refuse depthwise kernels that are too long: with steps between, and of 16 bits on VIP v7 those in rows."""
    generation, wide = view.draft.part.generation, view.kind(0).dtype is DType.I16
    single = weight.quant is not None and weight.quant.axis is None
    bytes_ = view.kind(0).dtype is not DType.I16 and not view.draft.fixed_point and single
    most = _LONG - 1 if generation in OLDEST else _FAR
    spans = (window.extent(axis) for axis in range(window.rank) if window.dilations[axis] > 1)
    reach = max(spans, default=0)
    told = f"a depthwise convolution whose dilated kernel spans {reach} elements"
    more = f"({most} are possible, and more of bytes with a scale per channel and in fixed point)"
    view.need(reach <= most or not (wide or bytes_), f"{told} comes out as garbage {more}")
    long = wide and generation in OLDEST and window.kernel[1] >= _LONG
    told = f"a depthwise kernel of {window.kernel[1]} columns at 16 bits"
    view.need(not long, f"{told} comes out as garbage ({_LONG - 1} are possible)")


def convolve_between(view: NodeView, weight: TensorType, window: PlaneWindow) -> PlaneWindow:
    """Return the window of a convolution, with half the step along rows where it steps by 4 along both axes.

    Of what such a one makes every eighth column is garbage, from the seventh on; `thin_out` takes what is asked for.
    """
    quarter = window.strides == _QUARTER and max(window.kernel) >= window.strides[0]
    return replace(window, strides=_HALF) if quarter and _is_of_bytes(view, weight) else window


def thin_out(view: NodeView, tensor: int, out: int) -> None:
    """Emit what takes every other column of a tensor."""
    begins, ends = (0, 0, 0, 0), view.draft.tensors[tensor].shape
    view.emit("strided_slice", (tensor,), (out,), (*begins, *ends, 2, 1, 1, 1))


def _is_of_bytes(view: NodeView, weight: TensorType) -> bool:
    """Tell whether the array of VIP v7 convolves bytes with one scale for all weights."""
    single = weight.quant is not None and weight.quant.axis is None
    return single and weight.dtype is not DType.I16 and view.draft.part.generation in OLDEST
