"""Signal power of tensors per channel: what the noise of a quantiser is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.ir.dtypes import AnyArray

_MAX_CHANNELS = 8192


@dataclass(frozen=True, slots=True)
class ChannelPower:
    """The mean square of every index of one axis."""

    axis: int
    mean_square: AnyArray


@dataclass(frozen=True, slots=True)
class Statistics:
    """The channel powers of every tensor, once per axis that may count channels."""

    tensors: Mapping[str, tuple[ChannelPower, ...]]


@dataclass(slots=True)
class _Sum:
    axis: int
    squares: AnyArray
    count: int = 0


@dataclass(slots=True)
class PowerMeter:
    """Sum up squares sample by sample."""

    _sums: dict[str, list[_Sum]] = field(default_factory=dict)

    def update(self, tensor: str, value: AnyArray) -> None:
        """Take one sample of a tensor."""
        sums = self._sums.setdefault(tensor, [_Sum(axis, np.zeros(value.shape[axis])) for axis in channel_axes(value)])
        squares = np.square(value, dtype=np.float64)
        for item in sums:
            if value.ndim <= item.axis or value.shape[item.axis] != len(item.squares):
                continue
            others = tuple(axis for axis in range(value.ndim) if axis != item.axis)
            item.squares += squares.sum(axis=others)
            item.count += value.size // max(len(item.squares), 1)

    def statistics(self) -> Statistics:
        """Return the mean squares so far."""
        return Statistics(
            {
                tensor: tuple(ChannelPower(item.axis, item.squares / max(item.count, 1)) for item in sums)
                for tensor, sums in self._sums.items()
            }
        )


def channel_axes(value: AnyArray) -> list[int]:
    """Return the axes of `[N, C, ...]` and `[N, ..., C]` that may count channels or output columns."""
    axes = {1, value.ndim - 1} if value.ndim >= 2 else set[int]()
    return sorted(axis for axis in axes if 1 < value.shape[axis] <= _MAX_CHANNELS)
