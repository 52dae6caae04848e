"""Outputs read as maps over the picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.outputs.ends import End, ImageInput
from dovetail.outputs.places import grid_level


@dataclass(frozen=True, slots=True)
class Map:
    """An output with a value, or one for each channel, at every cell of a grid over the picture."""

    end: End
    rows: int
    cols: int
    channels: int
    channel_axis: int | None
    """None where the output has no axis of channels."""
    stride: float
    """Pixels of the input a cell, below 1 where the output is larger than the picture."""

    @property
    def activations(self) -> frozenset[str]:
        """Return the activations nearest to the output, the empty one included."""
        return self.end.tail.activations

    @property
    def full(self) -> bool:
        """Tell whether there is a cell for every pixel."""
        return self.stride == 1.0


def maps_of(end: End, image: ImageInput) -> Iterator[Map]:
    """Yield the ways to read one output as a map: channels first, channels last, or none."""
    if end.ragged or not 2 <= end.rank <= 3:
        return
    shape = end.shape
    if end.rank == 2:
        yield from _map(end, (shape[0], shape[1]), 1, None, image)
        return
    yield from _map(end, (shape[1], shape[2]), shape[0], 0, image)
    yield from _map(end, (shape[0], shape[1]), shape[2], 2, image)


def _map(end: End, size: tuple[int, int], channels: int, axis: int | None, image: ImageInput) -> Iterator[Map]:
    rows, cols = size
    if min(rows, cols) < 2:
        return
    stride = _stride(rows, cols, image)
    if stride is not None:
        yield Map(end, rows, cols, channels, axis, stride)


def _stride(rows: int, cols: int, image: ImageInput) -> float | None:
    """Return the pixels a cell: a power of two, or a whole share where the output is larger than the picture."""
    if (rows, cols) == (image.rows, image.cols):
        return 1.0
    for scale in (2, 3, 4, 8):
        if (rows, cols) == (image.rows * scale, image.cols * scale):
            return 1.0 / scale
    level = grid_level(rows, cols, image)
    return None if level is None else float(2 ** round(math.log2(level.stride_x)))
