"""Window geometry of convolutions and poolings: strides, dilations and paddings over any number of axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dovetail.ir import AnyArray, Node


@dataclass(frozen=True, slots=True)
class Window:
    """Hold the sizes of a sliding window; `pads` are ONNX's (all begins, then all ends)."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str = "NOTSET"
    ceil: bool = False

    @property
    def rank(self) -> int:
        """Return the number of spatial axes."""
        return len(self.kernel)

    def extent(self, axis: int) -> int:
        """Return the input positions that the window spans."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def paddings(self, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return the padding before and after each axis of an input."""
        if self.auto_pad in ("NOTSET", ""):
            return [(self.pads[axis], self.pads[axis + self.rank]) for axis in range(self.rank)]
        if self.auto_pad == "VALID":
            return [(0, 0)] * self.rank
        found: list[tuple[int, int]] = []
        for axis, size in enumerate(sizes):
            steps = -(-size // self.strides[axis])
            total = max(0, (steps - 1) * self.strides[axis] + self.extent(axis) - size)
            small, large = total // 2, total - total // 2
            found.append((small, large) if self.auto_pad == "SAME_UPPER" else (large, small))
        return found

    def outputs(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes of the output for an input of these sizes."""
        found: list[int] = []
        for axis, (before, after) in enumerate(self.paddings(sizes)):
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


def window_of(node: Node, kernel: tuple[int, ...]) -> Window:
    """Return the window of a convolution or pooling node."""
    rank = len(kernel)
    return Window(
        kernel,
        node.integers("strides") or (1,) * rank,
        node.integers("dilations") or (1,) * rank,
        node.integers("pads") or (0,) * (2 * rank),
        node.text("auto_pad", "NOTSET"),
        bool(node.integer("ceil_mode", 0)),
    )


def pad_spatial(values: AnyArray, paddings: list[tuple[int, int]], room: tuple[int, ...], fill: float) -> AnyArray:
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
