"""Kernels and strides that the array of VIP v7 makes garbage of, and how they are got around.

Measured on A311D, RK1808, S905D3 and STM32MP2, in unsigned bytes unless it says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.generation import OLDEST, Generation
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.backends.verisilicon.windows import PlaneWindow
from dovetail.ir import AnyArray, DType, TensorType

_PAIR, _TRIPLE = (1, 2), (1, 3)
_MOST_PAIRED = 32
"""Channels of which a kernel of two neighbours in a row is right."""
_QUARTER, _HALF = (4, 4), (4, 2)
_LONG = 12
"""Elements along an axis from which on a kernel is garbage that reads more than `_MOST_READ` in all."""
_MOST_READ = 64


def fill_kernel(
    view: NodeView, value: AnyArray, weight: TensorType, window: PlaneWindow
) -> tuple[AnyArray, PlaneWindow]:
    """Return the weight of a convolution and its window; a kernel of two neighbours in a row gets a third of zeros.

    Where more than 32 channels go in it is garbage, dense or not: 16 of 16 shapes. Two in a column, three in a row and
    two with steps between are right.
    """
    pair = window.kernel == _PAIR and window.dilations[1] == 1
    if not (pair and _is_of_bytes(view, weight)) or view.shape(0)[1] <= _MOST_PAIRED or weight.quant is None:
        return value, window
    rows, (left, right) = window.paddings
    zeros = np.full((*value.shape[:3], 1), weight.quant.zero_point[0], value.dtype)
    return np.concatenate([value, zeros], axis=3), replace(window, kernel=_TRIPLE, paddings=(rows, (left, right + 1)))


def check_reach(view: NodeView, weight: TensorType, window: PlaneWindow, *, depthwise: bool) -> None:
    """Refuse long kernels: of bytes those that read more than 64 elements, of 16 bits depthwise ones in rows.

    A depthwise one with steps between is filled up with zeros for all channels at once.
    """
    group, channels = view.node.integer("group", 1), view.shape(0)[1]
    filled = depthwise and max(window.dilations) > 1
    if _is_of_bytes(view, weight) and (group == 1 or filled):
        spans = tuple(map(window.extent, range(window.rank))) if filled else window.kernel
        read = channels * spans[0] * spans[1]
        along = [span for span, stride in zip(spans, window.strides, strict=True) if stride == 1]
        told = f"a kernel that spans {spans[0]} x {spans[1]} of {channels} channels, {read} elements"
        limit = f"up to {_LONG - 1} along an axis, or {_MOST_READ} elements, are possible"
        view.need(max(along, default=0) < _LONG or read <= _MOST_READ, f"{told} comes out as garbage ({limit})")
    wide = depthwise and view.kind(0).dtype is DType.I16 and view.draft.part.generation is Generation.V7
    long = window.kernel[1] >= _LONG and window.strides[1] == 1
    told = f"a depthwise kernel of {window.kernel[1]} columns at 16 bits comes out as garbage"
    view.need(not (wide and long), f"{told} ({_LONG - 1} are possible)")


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
    """Tell whether the array of VIP v7 convolves unsigned bytes."""
    return weight.quant is not None and weight.dtype is DType.U8 and view.draft.part.generation in OLDEST
