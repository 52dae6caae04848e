"""Grids over a picture: how many places a detector has, and at which strides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dovetail.outputs.ends import ImageInput
from dovetail.outputs.layouts import Level

STRIDES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_MOST_ANCHORS = 24
_UNIFORM_ANCHORS = (1, 2, 3, 4, 5, 6, 9)


def grid_level(rows: int, cols: int, image: ImageInput, anchors: int = 1) -> Level | None:
    """Return the level whose grid over the picture has that many rows and columns, or None.

    Sizes are rounded up or down, as convolutions with and without padding do.
    """
    for stride in STRIDES:
        exact = (image.rows / stride, image.cols / stride)
        if all(size in (math.ceil(side), math.floor(side)) for size, side in zip((rows, cols), exact, strict=True)):
            return Level(image.rows / rows, image.cols / cols, rows, cols, anchors)
    return None


def levels_of_sum(places: int, image: ImageInput) -> tuple[Level, ...] | None:
    """Return consecutive levels with one number of anchors that hold so many places together, or None.

    Fewer anchors are preferred, then more levels.
    """
    for anchors in _UNIFORM_ANCHORS:
        for levels in sorted(_ladders(image, anchors), key=lambda ladder: -len(ladder)):
            if sum(level.places for level in levels) == places:
                return levels
    return None


def rarity_db(places: int, image: ImageInput) -> float:
    """Return how rare it is that a number is a sum of grids by accident, in decibans, at most 20.

    The chance is the share of the numbers between half and twice `places` that are such sums.
    """
    sums = {
        total
        for anchors in _UNIFORM_ANCHORS
        for levels in _ladders(image, anchors)
        if places / 2 <= (total := sum(level.places for level in levels)) <= places * 2
    }
    chance = max(len(sums) / max(1.5 * places, 1.0), 1e-2)
    return max(0.0, -10 * math.log10(chance))


def levels_of_parts(parts: Sequence[int], image: ImageInput) -> tuple[Level, ...] | None:
    """Return levels of rising stride that hold so many places each, or None."""
    found: list[Level] = []
    index = 0
    for places in parts:
        while index < len(STRIDES):
            level = _grid(image, STRIDES[index])
            index += 1
            if level.places and places % level.places == 0 and places // level.places <= _MOST_ANCHORS:
                found.append(Level(level.stride_y, level.stride_x, level.rows, level.cols, places // level.places))
                break
        else:
            return None
    return tuple(found) if found else None


def _ladders(image: ImageInput, anchors: int) -> Iterator[tuple[Level, ...]]:
    """Yield consecutive strides, from 4 pixels on, that leave a grid of more than one cell at the beginning."""
    grids = [_grid(image, stride, anchors) for stride in STRIDES if stride >= 4]
    grids = [grid for grid in grids if min(grid.rows, grid.cols) >= 1]
    for start in range(len(grids)):
        for stop in range(start + 1, len(grids) + 1):
            if max(grids[start].rows, grids[start].cols) > 1:
                yield tuple(grids[start:stop])


def _grid(image: ImageInput, stride: int, anchors: int = 1) -> Level:
    rows, cols = math.ceil(image.rows / stride), math.ceil(image.cols / stride)
    return Level(image.rows / rows, image.cols / cols, rows, cols, anchors)
