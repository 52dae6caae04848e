"""Window geometry of convolutions and poolings over two axes, in the order of rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dovetail.ir import AnyArray


@dataclass(frozen=True, slots=True)
class PlaneWindow:
    """The sizes of a window that slides over rows and columns."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    paddings: tuple[tuple[int, int], tuple[int, int]]
    """What stands before and after each axis."""

    @property
    def parameters(self) -> tuple[int, ...]:
        """Return kernel, strides and pads as the shim takes them: columns before rows; left, right, top, bottom."""
        (top, bottom), (left, right) = self.paddings
        return (*self.kernel[::-1], *self.strides[::-1], left, right, top, bottom)

    @property
    def rank(self) -> int:
        """Return the number of spatial axes."""
        return len(self.kernel)

    def extent(self, axis: int) -> int:
        """Return the input positions that the window spans."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def outputs(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of the output for an input of these sizes."""
        found: list[int] = []
        for axis, (before, after) in enumerate(self.paddings):
            room = sizes[axis] + before + after - self.extent(axis)
            found.append(room // self.strides[axis] + 1)
        return tuple(found)

    def fitted(self, sizes: Sequence[int], *, ceil: bool) -> PlaneWindow:
        """Return the window that pads behind an input of these sizes what it reads there, and no more.

        With `ceil` the last window may hang over the end, if it starts inside the input or the padding before.
        """
        paddings: list[tuple[int, int]] = []
        for axis, (before, after) in enumerate(self.paddings):
            stride, extent, end = self.strides[axis], self.extent(axis), sizes[axis] + before
            room = end + after - extent
            steps = (-(-room // stride) if ceil else room // stride) + 1
            steps -= ceil and (steps - 1) * stride >= end
            paddings.append((before, max(0, (steps - 1) * stride + extent - end)))
        return replace(self, paddings=(paddings[0], paddings[1]))

    def slide(self, padded: AnyArray, outputs: tuple[int, ...]) -> AnyArray:
        """Return a view `[N, C, out..., kernel...]` of a padded input `[N, C, in...]`."""
        axes = tuple(range(2, 2 + self.rank))
        view = sliding_window_view(padded, tuple(self.extent(axis) for axis in range(self.rank)), axis=axes)
        starts = tuple(
            slice(0, (count - 1) * step + 1, step) for count, step in zip(outputs, self.strides, strict=True)
        )
        holes = tuple(slice(None, None, step) for step in self.dilations)
        windows: AnyArray = view[(slice(None), slice(None), *starts, *holes)]
        return windows

    def tap(self, offset: tuple[int, ...], outputs: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the slices that one position of the window reads of a padded input."""
        return tuple(
            slice(
                offset[axis] * self.dilations[axis],
                offset[axis] * self.dilations[axis] + (outputs[axis] - 1) * self.strides[axis] + 1,
                self.strides[axis],
            )
            for axis in range(self.rank)
        )


def window_of(parameters: Sequence[int], dilations: Sequence[int] = (1, 1)) -> PlaneWindow:
    """Return a window from the shim's parameters (see `PlaneWindow.parameters`) and dilations, columns before rows."""
    columns, rows, across, down, left, right, top, bottom = parameters
    turned = (dilations[1], dilations[0])
    return PlaneWindow((rows, columns), (down, across), turned, ((top, bottom), (left, right)))


def pad_spatial(values: AnyArray, paddings: Sequence[tuple[int, int]], fill: float) -> AnyArray:
    """Return `[N, C, in...]` padded."""
    if not any(map(any, paddings)):
        return values
    sizes = tuple(size + begin + end for size, (begin, end) in zip(values.shape[2:], paddings, strict=True))
    padded = np.full((*values.shape[:2], *sizes), fill, dtype=values.dtype)
    inner = tuple(slice(begin, begin + size) for (begin, _), size in zip(paddings, values.shape[2:], strict=True))
    padded[(slice(None), slice(None), *inner)] = values
    return padded
