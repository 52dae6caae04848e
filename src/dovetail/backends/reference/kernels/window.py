"""Sliding windows: what convolution and pooling share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.backends.reference.kernels.call import product
from dovetail.ir import AnyArray, Node


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves over the spatial axes of `[N, C, *spatial]`; one entry an axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the size that the dilated window covers."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True))


def window_of(node: Node, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> Window:
    """Return the window of a node over an input of this spatial size, with auto_pad resolved."""
    rank = len(kernel)
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    if not rank == len(spatial) == len(strides) == len(dilations) == len(pads) // 2:
        raise ValueError(
            f"a window of {rank} axes does not fit {len(spatial)} spatial axes, strides, dilations or pads"
        )
    if min(strides, default=1) < 1 or min(dilations, default=1) < 1:
        raise ValueError("strides and dilations must be at least 1")
    window = Window(kernel, strides, dilations, pads[:rank], pads[rank:])
    auto_pad = node.text("auto_pad", "NOTSET")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-size // stride) - 1) * stride + extent - size, 0)
            for size, stride, extent in zip(spatial, strides, window.extents, strict=True)
        ]
        small, large = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
        begins, ends = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
        return Window(kernel, strides, dilations, begins, ends)
    if auto_pad == "VALID":
        return Window(kernel, strides, dilations, (0,) * rank, (0,) * rank)
    return window


def round_up(window: Window, spatial: tuple[int, ...]) -> Window:
    """Return the window with its end padding grown as ceil_mode=1 asks.

    A window that would start in the padding after the end is dropped, as ONNX has it since opset 22 and every
    runtime before.
    """
    ends: list[int] = []
    for axis, size in enumerate(spatial):
        stride, extent = window.strides[axis], window.extents[axis]
        begin, end = window.begins[axis], window.ends[axis]
        count = -(-(size + begin + end - extent) // stride) + 1
        if (count - 1) * stride >= size + begin:
            count -= 1
        ends.append((count - 1) * stride + extent - size - begin)
    return Window(window.kernel, window.strides, window.dilations, window.begins, tuple(ends))


def slide(x: AnyArray, window: Window, fill: float) -> AnyArray:
    """Return the view `[N, C, *output, *kernel]` of a padded `[N, C, *spatial]`."""
    widths = [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in zip(window.begins, window.ends, strict=True))]
    padded = np.pad(x, widths, constant_values=np.asarray(fill, dtype=x.dtype))
    crop = [slice(None), slice(None)]
    crop += [
        slice(max(-a, 0), size - max(-b, 0))
        for a, b, size in zip(window.begins, window.ends, padded.shape[2:], strict=True)
    ]
    padded = padded[tuple(crop)]
    rank = len(window.kernel)
    if any(size < extent for size, extent in zip(padded.shape[2:], window.extents, strict=True)):
        raise ValueError(f"a window of {window.extents} is larger than the padded input {padded.shape[2:]}")
    view = np.lib.stride_tricks.sliding_window_view(padded, window.extents, axis=tuple(range(2, 2 + rank)))
    keep = [slice(None), slice(None)]
    keep += [slice(None, None, stride) for stride in window.strides]
    keep += [slice(None, None, dilation) for dilation in window.dilations]
    return view[tuple(keep)]


def columns(x: AnyArray, window: Window, group: int) -> tuple[AnyArray, tuple[int, ...]]:
    """Return `[N, group, C / group * kernel, positions]` and the spatial shape of the positions."""
    view = slide(x, window, 0)
    rank = len(window.kernel)
    batch, channels = view.shape[:2]
    output = tuple(view.shape[2 : 2 + rank])
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    depth = channels // group * product(window.kernel)
    return view.transpose(order).reshape(batch, group, depth, product(output)), output
