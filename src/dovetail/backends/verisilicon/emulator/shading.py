"""Convolutions and layers of 16 bits that a shader computes: eight products at a time exactly, their sums in float32.

The input is unfolded `[channel, row, column of the kernel]`; a transposed convolution spreads its input first. Checked
on the vendor's simulator with random shapes, strides and scales: equal on every element.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given, samples_first, with_samples
from dovetail.backends.verisilicon.emulator.singles import cut_single
from dovetail.backends.verisilicon.emulator.storing import stored_from
from dovetail.backends.verisilicon.views import OperatorView, scale_of
from dovetail.backends.verisilicon.windows import window_of
from dovetail.ir import AnyArray, DType

_TOGETHER = 8
_LANES = 4
"""A convolution without a bias is another kernel, and so is every layer: a dot product adds four such sums."""


@dataclass(frozen=True, slots=True)
class _Unfolding:
    """Which elements of `[N, C, H, W]` an output element reads, after spreading by `spread` and padding."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    spread: tuple[int, ...]
    outputs: tuple[int, ...]

    def __call__(self, stored: AnyArray) -> AnyArray:
        """Return `[N, C * kernel, H * W of the output]`."""
        count, channels, *sizes = stored.shape
        wide = [(size - 1) * step + 1 for size, step in zip(sizes, self.spread, strict=True)]
        reach = [
            (self.outputs[axis] - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilations[axis] + 1
            for axis in (0, 1)
        ]
        canvas = np.zeros((count, channels, *(max(reach[axis], self.begins[axis] + wide[axis]) for axis in (0, 1))))
        top, left = self.begins
        canvas[:, :, top : top + wide[0] : self.spread[0], left : left + wide[1] : self.spread[1]] = stored
        taps = []
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                begin = row * self.dilations[0], column * self.dilations[1]
                end = [begin[axis] + (self.outputs[axis] - 1) * self.strides[axis] + 1 for axis in (0, 1)]
                taps.append(canvas[:, :, begin[0] : end[0] : self.strides[0], begin[1] : end[1] : self.strides[1]])
        return np.stack(taps, 2).reshape(count, channels * len(taps), -1)


def shaded_product(item: OperatorView) -> Kernel | None:
    """Return how a shader computes a convolution `[N, C, H, W]` of 16 bits, or None without a rule."""
    weight, bias = item.constant(1), item.constant(2)
    unfolding = _unfolding(item)
    if weight is None or unfolding is None or item.kind().dtype is not DType.I16:
        return None
    scales = [scale_of(kind) for kind in (item.kind(0), item.kind(1), item.made())]
    turned = weight if item.operator.kind == "conv2d" else weight[:, :, ::-1, ::-1]
    rows = turned.reshape(len(turned), -1).astype(np.float64)
    multiplier = float32(scales[0] * scales[1] / scales[2])

    def run(values: Values) -> AnyArray:
        columns = unfolding(samples_first(given(values)))
        sums = _added_up(rows, columns, bias, _LANES if bias is None else 1)
        made = item.made().dtype
        steps = np.clip(np.rint(sums * multiplier), *made.integer_range).astype(made.carrier)
        return with_samples(steps.reshape(len(columns), len(rows), *unfolding.outputs), len(given(values)))

    return run


def shaded_layer(item: OperatorView) -> Kernel | None:
    """Return how a shader computes rows `[N, C]` of 16 bits times a constant `[O, C]`, or None without a rule."""
    weight, bias = item.constant(1), item.constant(2)
    if weight is None or item.kind().dtype is not DType.I16 or item.made().dtype is not DType.I16:
        return None
    scales = [scale_of(kind) for kind in (item.kind(0), item.kind(1), item.made())]
    rows, multiplier = weight.astype(np.float64), float32(scales[0] * scales[1] / scales[2])

    def run(values: Values) -> AnyArray:
        columns = given(values).astype(np.float64)
        sums = _added_up(rows, np.swapaxes(columns, -1, -2), bias, _LANES)
        return stored_from(np.rint(np.swapaxes(sums, -1, -2) * multiplier), item.made())

    return run


def _added_up(rows: AnyArray, columns: AnyArray, bias: AnyArray | None, lanes: int) -> AnyArray:
    """Return `[O, C]` times `[N, C, places]` in float32: some sums of eight products at a time, behind the bias."""
    begin = np.zeros(len(rows), float32) if bias is None else bias.astype(float32)
    sums = np.broadcast_to(begin[:, None], (len(columns), len(rows), columns.shape[2]))
    for start in range(0, columns.shape[1], _TOGETHER * lanes):
        edges = range(start, start + _TOGETHER * lanes, _TOGETHER)
        parts = [cut_single(rows[:, at : at + _TOGETHER] @ columns[:, at : at + _TOGETHER]) for at in edges]
        sums = sums + (parts[0] if lanes == 1 else np.sum(parts, 0, dtype=np.float64).astype(float32))
    return np.asarray(sums)


def _unfolding(item: OperatorView) -> _Unfolding | None:
    """Return how a dense convolution reads its input; None for another, or one padded beyond its kernel."""
    outputs = item.made_shape()[2:]
    if item.operator.kind == "conv2d":
        window = window_of(item.ints[:8], item.ints[8:10])
        begins = tuple(before for before, _ in window.paddings)
        dense = item.ints[10] == 1
        return _Unfolding(window.kernel, window.strides, window.dilations, begins, (1, 1), outputs) if dense else None
    if item.operator.kind != "deconv2d":
        return None
    window = window_of(item.ints[:8])
    if any(max(pads) > size - 1 for pads, size in zip(window.paddings, window.kernel, strict=True)):
        return None
    begins = tuple(size - 1 - pads[0] for pads, size in zip(window.paddings, window.kernel, strict=True))
    return _Unfolding(window.kernel, (1, 1), (1, 1), begins, window.strides, outputs)
