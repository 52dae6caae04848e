"""Power, mean and extremes of tensors per channel: what noise is compared with, and what repairs go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.ir.dtypes import AnyArray

MOST_CHANNELS = 8192
"""Channels of a tensor that are told apart."""


@dataclass(frozen=True, slots=True)
class ChannelPower:
    """Mean square, mean and extremes of every index of one axis."""

    axis: int
    mean_square: AnyArray
    mean: AnyArray
    low: AnyArray
    high: AnyArray


@dataclass(frozen=True, slots=True)
class Statistics:
    """The figures of every tensor, once per axis that may count channels."""

    tensors: Mapping[str, tuple[ChannelPower, ...]]


@dataclass(slots=True)
class _Sum:
    axis: int
    squares: AnyArray
    total: AnyArray
    low: AnyArray
    high: AnyArray
    count: int = 0

    @classmethod
    def along(cls, axis: int, size: int) -> _Sum:
        """Return the sum of nothing."""
        return cls(axis, np.zeros(size), np.zeros(size), np.full(size, np.inf), np.full(size, -np.inf))

    def add(self, value: AnyArray, squares: AnyArray) -> None:
        """Take one sample and its squares."""
        others = tuple(axis for axis in range(value.ndim) if axis != self.axis)
        self.squares += squares.sum(axis=others)
        self.total += value.sum(axis=others, dtype=np.float64)
        self.low = np.minimum(self.low, value.min(axis=others))
        self.high = np.maximum(self.high, value.max(axis=others))
        self.count += value.size // max(len(self.squares), 1)

    def power(self) -> ChannelPower:
        """Return the figures so far."""
        count = max(self.count, 1)
        return ChannelPower(self.axis, self.squares / count, self.total / count, self.low, self.high)


@dataclass(slots=True)
class PowerMeter:
    """Sum up figures sample by sample."""

    _sums: dict[str, list[_Sum]] = field(default_factory=dict)

    def update(self, tensor: str, value: AnyArray) -> None:
        """Take one sample of a tensor."""
        sums = self._sums.setdefault(tensor, [_Sum.along(axis, value.shape[axis]) for axis in channel_axes(value)])
        squares = np.square(value, dtype=np.float64)
        for item in sums:
            if value.size and value.ndim > item.axis and value.shape[item.axis] == len(item.squares):
                item.add(value, squares)

    def statistics(self) -> Statistics:
        """Return the figures so far."""
        return Statistics({tensor: tuple(item.power() for item in sums) for tensor, sums in self._sums.items()})


def channel_axes(value: AnyArray) -> list[int]:
    """Return the axes of `[N, C, ...]` and `[N, ..., C]` that may count channels or output columns."""
    axes = {1, value.ndim - 1} if value.ndim >= 2 else set[int]()
    return sorted(axis for axis in axes if 1 < value.shape[axis] <= MOST_CHANNELS)
