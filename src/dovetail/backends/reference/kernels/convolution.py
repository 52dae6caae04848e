"""Convolutions; the same code runs on reals (float64) and, exactly, on integers (int64)."""

from __future__ import annotations

import numpy as np

from dovetail.backends.reference.kernels.call import Call, Kernels, exact_matmul, product
from dovetail.backends.reference.kernels.window import Window, columns, window_of
from dovetail.ir import AnyArray, Node


def _convolve(node: Node, x: AnyArray, weight: AnyArray) -> AnyArray:
    """Convolve `[N, C, *spatial]` with `[M, C / group, *kernel]`."""
    group = node.integer("group", 1)
    kernel = tuple(weight.shape[2:])
    if x.shape[1] != weight.shape[1] * group or weight.shape[0] % group:
        raise ValueError(f"{x.shape[1]} channels do not fit weights {weight.shape} in {group} groups")
    window = window_of(node, kernel, tuple(x.shape[2:]))
    matrix = weight.reshape(group, weight.shape[0] // group, -1)
    parts: list[AnyArray] = []
    output: tuple[int, ...] = ()
    for sample in range(x.shape[0]):
        patches, output = columns(x[sample : sample + 1], window, group)
        parts.append(exact_matmul(matrix, patches[0]).reshape(1, weight.shape[0], *output))
    if not parts:
        return np.zeros((0, weight.shape[0], *output), x.dtype)
    return np.concatenate(parts)


def add_bias(y: AnyArray, bias: AnyArray | None) -> AnyArray:
    """Add `[M]` to `[N, M, *spatial]`."""
    return y if bias is None else np.asarray(y + bias.reshape(1, -1, *(1,) * (y.ndim - 2)))


def _conv(call: Call) -> tuple[AnyArray, ...]:
    return (add_bias(_convolve(call.node, call.input(0), call.input(1)), call.optional(2)),)


def _conv_integer(call: Call) -> tuple[AnyArray, ...]:
    x, weight = call.input(0).astype(np.int64), call.input(1).astype(np.int64)
    x_zero, w_zero = call.optional(2), call.optional(3)
    if x_zero is not None:
        x = np.asarray(x - x_zero.astype(np.int64))
    if w_zero is not None:
        zero = w_zero.astype(np.int64)
        weight = np.asarray(weight - (zero.reshape(-1, *(1,) * (weight.ndim - 1)) if zero.size > 1 else zero))
    return (_convolve(call.node, x, weight).astype(np.int32),)


def _transposed_window(node: Node, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> tuple[Window, tuple[int, ...]]:
    """Return the window of a transposed convolution and its output size, with auto_pad and output_shape resolved."""
    window = window_of(node, kernel, spatial)
    extra = node.integers("output_padding") or (0,) * len(kernel)
    full = tuple(
        stride * (size - 1) + added + extent
        for stride, size, added, extent in zip(window.strides, spatial, extra, window.extents, strict=True)
    )
    wanted = node.integers("output_shape")
    auto_pad = node.text("auto_pad", "NOTSET")
    if not wanted and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(size * stride for size, stride in zip(spatial, window.strides, strict=True))
    if not wanted:
        sizes = tuple(size - a - b for size, a, b in zip(full, window.begins, window.ends, strict=True))
        return window, sizes
    wanted = wanted[-len(kernel) :]
    totals = [size - want for size, want in zip(full, wanted, strict=True)]
    small, large = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
    begins, ends = (large, small) if auto_pad == "SAME_LOWER" else (small, large)
    if auto_pad == "NOTSET":
        begins, ends = (large, small)
    return Window(kernel, window.strides, window.dilations, begins, ends), wanted


def _conv_transpose(call: Call) -> tuple[AnyArray, ...]:
    """Scatter `[N, C, *spatial]` through `[C, M / group, *kernel]`."""
    x, weight, group = call.input(0), call.input(1), call.node.integer("group", 1)
    batch, channels, spatial = x.shape[0], x.shape[1], tuple(x.shape[2:])
    kernel, out_channels = tuple(weight.shape[2:]), weight.shape[1] * group
    window, sizes = _transposed_window(call.node, kernel, spatial)
    matrix = weight.reshape(group, channels // group, -1).transpose(0, 2, 1)
    spread = exact_matmul(matrix, x.reshape(batch, group, channels // group, product(spatial)))
    spread = spread.reshape(batch, out_channels, product(kernel), *spatial)
    begins = tuple(max(begin, 0) for begin in window.begins)
    room = tuple(
        max(stride * (size - 1) + extent, begin + want)
        for stride, size, extent, begin, want in zip(
            window.strides, spatial, window.extents, begins, sizes, strict=True
        )
    )
    canvas = np.zeros((batch, out_channels, *room), spread.dtype)
    for index, offset in enumerate(np.ndindex(*kernel)):
        place = tuple(
            slice(at * dilation, at * dilation + stride * (size - 1) + 1, stride)
            for at, dilation, stride, size in zip(offset, window.dilations, window.strides, spatial, strict=True)
        )
        canvas[(slice(None), slice(None), *place)] += spread[:, :, index]
    cut = tuple(slice(begin, begin + want) for begin, want in zip(begins, sizes, strict=True))
    return (add_bias(canvas[(slice(None), slice(None), *cut)], call.optional(2)),)


KERNELS: Kernels = {"Conv": _conv, "ConvInteger": _conv_integer, "ConvTranspose": _conv_transpose}
