"""Constants that a TFLite file stores without their zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dovetail.ir import AnyArray


class SparsityError(ValueError):
    """A description that fits neither the shape nor the stored elements."""


@dataclass(frozen=True, slots=True)
class StoredDimension:
    """One dimension as it is stored: all of its `size`, or for every entry before it a piece of `indices`."""

    size: int
    segments: tuple[int, ...] = field(default=(), repr=False)
    indices: tuple[int, ...] = field(default=(), repr=False)

    @property
    def is_sparse(self) -> bool:
        """Tell whether only some places are stored."""
        return bool(self.segments)


@dataclass(frozen=True, slots=True)
class Sparsity:
    """The order in which dimensions are stored, the dimensions that blocks cut, and how each is stored.

    Dimensions beyond the tensor's rank are those of its blocks; files without any may still name a block.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[StoredDimension, ...]

    def densified(self, stored: AnyArray, shape: tuple[int, ...]) -> AnyArray:
        """Return the whole array of a shape, with 0 where nothing is stored; raise SparsityError where it does not fit.

        The format is that of the tensor algebra compiler (Kjolstad et al. 2017), blocks being dimensions too.
        """
        rank, most = len(shape), math.prod(shape)
        blocks = self.blocks[: max(len(self.order) - rank, 0)]
        if sorted(self.order) != list(range(rank + len(blocks))) or len(self.levels) != len(self.order):
            raise SparsityError("the order of the stored dimensions is none")
        places: dict[int, AnyArray] = {}
        count = 1
        for dimension, level in zip(self.order, self.levels, strict=True):
            parents, places[dimension] = _entered(level, count, most)
            places = {key: value if key == dimension else value[parents] for key, value in places.items()}
            count = len(parents)
        if count != stored.size:
            raise SparsityError(f"{count} elements are described and {stored.size} are stored")
        for number, dimension in enumerate(blocks):
            size = self.levels[self.order.index(rank + number)].size
            if not 0 <= dimension < rank or size < 1:
                raise SparsityError(f"a block of {size} lies along dimension {dimension}")
            places[dimension] = places[dimension] * size + places[rank + number]
        if any(count and int(places[axis].max()) >= size for axis, size in enumerate(shape)):
            raise SparsityError("an element lies outside the shape")
        dense = np.zeros(shape, stored.dtype)
        dense[tuple(places[axis] for axis in range(rank))] = stored.reshape(-1)
        return dense


def _entered(level: StoredDimension, count: int, most: int) -> tuple[AnyArray, AnyArray]:
    """Return for every entry of a level the entry before it that it belongs to, and its place."""
    if not level.is_sparse:
        if level.size < 1 or count * level.size > most:
            raise SparsityError(f"a dimension of {level.size} does not fit")
        return np.repeat(np.arange(count), level.size), np.tile(np.arange(level.size), count)
    segments, indices = np.asarray(level.segments, np.int64), np.asarray(level.indices, np.int64)
    lengths = np.diff(segments)
    if len(segments) != count + 1 or segments[0] != 0 or segments[-1] != len(indices) or (lengths < 0).any():
        raise SparsityError("the segments of a dimension do not fit its indices")
    if len(indices) > most or (indices < 0).any():
        raise SparsityError("the indices of a dimension do not fit the shape")
    return np.repeat(np.arange(count), lengths), indices
