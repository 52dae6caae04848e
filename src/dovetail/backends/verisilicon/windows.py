"""Window geometry of convolutions and poolings over two axes, in the order of rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    ceil: bool = False
    """The last window may hang over the end."""

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
            stride = self.strides[axis]
            room = sizes[axis] + before + after - self.extent(axis)
            steps = (-(-room // stride) if self.ceil else room // stride) + 1
            if self.ceil and (steps - 1) * stride >= sizes[axis] + before:
                # A window must start inside the input or its left padding.
                steps -= 1
            found.append(steps)
        return tuple(found)

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


def window_of(parameters: Sequence[int], dilations: Sequence[int] = (1, 1), *, ceil: bool = False) -> PlaneWindow:
    """Return a window from the shim's parameters (see `PlaneWindow.parameters`) and dilations, columns before rows."""
    columns, rows, across, down, left, right, top, bottom = parameters
    turned = (dilations[1], dilations[0])
    return PlaneWindow((rows, columns), (down, across), turned, ((top, bottom), (left, right)), ceil)


def pad_spatial(values: AnyArray, paddings: Sequence[tuple[int, int]], room: tuple[int, ...], fill: float) -> AnyArray:
    """Return `[N, C, in...]` padded, and widened behind to at least `room` positions an axis."""
    after = [
        max(end, need - size - begin) for (begin, end), need, size in zip(paddings, room, values.shape[2:], strict=True)
    ]
    widths = [(begin, end) for (begin, _), end in zip(paddings, after, strict=True)]
    if not any(begin or end for begin, end in widths):
        return values
    sizes = tuple(size + begin + end for size, (begin, end) in zip(values.shape[2:], widths, strict=True))
    padded = np.full((*values.shape[:2], *sizes), fill, dtype=values.dtype)
    inner = tuple(slice(begin, begin + size) for (begin, _), size in zip(widths, values.shape[2:], strict=True))
    padded[(slice(None), slice(None), *inner)] = values
    return padded
