"""Random chains of operators that only move values, behind what makes them, up to an output.

A vendor's compiler makes views of such operators, and what is last may be filled by nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth, UnfitError, grown
from dovetail.testing.wild.trios import PRODUCERS, given

_ATTEMPTS = 20
_LONGEST = 4
_MOST = 4000
"""Elements of what is repeated."""
_IMAGE, _ROWS = 4, 3
"""Axes."""


def wild_chain(seed: int) -> WildCase:
    """Return a chain, in some cases beside another operator, the same for the same seed."""
    found = grown(seed, _ATTEMPTS, _grow)
    if found is not None:
        return found
    growth = Growth(seed)
    growth.op("Transpose", given(growth, (1, 3, 4, 4)), perm=(0, 2, 3, 1))
    return growth.case(seed)


def _grow(growth: Growth, _attempt: int) -> None:
    draw = growth.draw
    shape = (draw.pick(1, 1, 1, 2), draw.pick(3, 4, 8, 12), 2 * draw.whole(1, 5), 2 * draw.whole(1, 5))
    made = given(growth, shape) if draw.chance(0.3) else draw.pick(*PRODUCERS)(growth, shape)
    for _ in range(draw.whole(1, _LONGEST)):
        made = draw.pick(*_MOVES)(growth, made)
    if draw.chance(0.4):
        other = (1, draw.pick(3, 8), draw.whole(2, 8), draw.whole(2, 8))
        draw.pick(*PRODUCERS)(growth, other)


def _integers(growth: Growth, *values: int) -> str:
    return growth.constant(np.array(values, np.int64))


def _axis(growth: Growth, tensor: str) -> int:
    """Return an axis other than the first, which is the batch."""
    return growth.draw.whole(1, len(growth.shape(tensor)) - 1)


def _transposed(growth: Growth, tensor: str) -> str:
    order = growth.rng.permutation(np.arange(1, len(growth.shape(tensor))))
    return growth.op("Transpose", tensor, perm=(0, *order.tolist()))


def _reshaped(growth: Growth, tensor: str) -> str:
    batch, *sizes = growth.shape(tensor)
    seen: tuple[int, ...]
    if len(sizes) + 1 == _IMAGE:
        seen = (sizes[0], sizes[1] * sizes[2]) if growth.draw.chance(0.6) else (sizes[0] * sizes[1] * sizes[2],)
    elif len(sizes) + 1 == _ROWS:
        rows = growth.draw.pick(*(size for size in range(1, sizes[1] + 1) if sizes[1] % size == 0))
        seen = (sizes[0], rows, sizes[1] // rows)
    else:
        raise UnfitError
    return growth.op("Reshape", tensor, _integers(growth, batch, *seen))


def _sliced(growth: Growth, tensor: str) -> str:
    axis = _axis(growth, tensor)
    size = growth.shape(tensor)[axis]
    start = growth.draw.whole(0, size - 1)
    ends = (start, growth.draw.whole(start + 1, size), axis, 1)
    return growth.op("Slice", tensor, *(_integers(growth, value) for value in ends))


def _split(growth: Growth, tensor: str) -> str:
    axis = _axis(growth, tensor)
    size = growth.shape(tensor)[axis]
    if size < 2:
        raise UnfitError
    first = growth.draw.whole(1, size - 1)
    parts = growth.split("Split", (tensor, _integers(growth, first, size - first)), 2, axis=axis)
    return growth.draw.pick(*parts)


def _joined(growth: Growth, tensor: str) -> str:
    other = given(growth, growth.shape(tensor))
    other = growth.op("Relu", other) if growth.draw.chance(0.5) else other
    return growth.op("Concat", tensor, other, axis=_axis(growth, tensor))


def _padded(growth: Growth, tensor: str) -> str:
    if len(growth.shape(tensor)) != _IMAGE:
        raise UnfitError
    sides = growth.rng.integers(0, 3, 4).tolist()
    return growth.op("Pad", tensor, _integers(growth, 0, 0, *sides[:2], 0, 0, *sides[2:]))


def _blocks(growth: Growth, tensor: str) -> str:
    sizes = growth.shape(tensor)
    if len(sizes) != _IMAGE:
        raise UnfitError
    deep, wide = sizes[1] % 4 == 0, all(size % 2 == 0 for size in sizes[2:])
    if not (deep or wide):
        raise UnfitError
    to_space = deep and (not wide or growth.draw.chance(0.5))
    return growth.op("DepthToSpace" if to_space else "SpaceToDepth", tensor, blocksize=2)


def _tiled(growth: Growth, tensor: str) -> str:
    sizes, axis = growth.shape(tensor), _axis(growth, tensor)
    if np.prod(sizes) > _MOST:
        raise UnfitError
    return growth.op("Tile", tensor, _integers(growth, *(2 if index == axis else 1 for index in range(len(sizes)))))


def _gathered(growth: Growth, tensor: str) -> str:
    axis = _axis(growth, tensor)
    taken = growth.rng.integers(0, growth.shape(tensor)[axis], 3).tolist()
    return growth.op("Gather", tensor, _integers(growth, *taken), axis=axis)


_MOVES: tuple[Callable[[Growth, str], str], ...] = (
    *(_transposed, _transposed, _reshaped, _sliced, _sliced, _split, _joined),
    *(_padded, _blocks, _tiled, _gathered),
)
