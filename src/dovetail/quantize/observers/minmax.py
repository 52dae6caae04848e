"""Observers that keep extremes only."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import NDArray

from dovetail.quantize.observers.base import extremes, nothing_seen


class MinMaxObserver:
    """The smallest and the largest value."""

    def __init__(self) -> None:
        self.count = 0
        self._low = float("inf")
        self._high = float("-inf")

    def update(self, array: NDArray[Any]) -> None:
        if array.size:
            low, high = extremes(array)
            self._low, self._high = min(self._low, low), max(self._high, high)
            self.count += array.size

    def merge(self, other: Self) -> None:
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)
        self.count += other.count

    def range(self) -> tuple[float, float]:
        if not self.count:
            raise nothing_seen()
        return self._low, self._high


class MovingAverageObserver:
    """Average each sample's extremes: state = (1 - momentum) * state + momentum * sample.

    The first sample is the first state. The only observer for which the order of the samples matters.
    """

    def __init__(self, momentum: float) -> None:
        self.count = 0
        self._keep = 1.0 - momentum
        self._samples = 0
        self._first = (0.0, 0.0)
        self._state = (0.0, 0.0)

    def update(self, array: NDArray[Any]) -> None:
        if not array.size:
            return
        low, high = extremes(array)
        if self._samples:
            keep, add = self._keep, 1.0 - self._keep
            self._state = (keep * self._state[0] + add * low, keep * self._state[1] + add * high)
        else:
            self._first = self._state = (low, high)
        self._samples += 1
        self.count += array.size

    def merge(self, other: Self) -> None:
        if not other._samples:
            return
        if self._samples:
            # `other` began with its first sample as its state; put the own state in that sample's place.
            faded = self._keep**other._samples
            low, high = (
                end + faded * (own - first)
                for own, first, end in zip(self._state, other._first, other._state, strict=True)
            )
            self._state = (low, high)
        else:
            self._first, self._state = other._first, other._state
        self._samples += other._samples
        self.count += other.count

    def range(self) -> tuple[float, float]:
        if not self._samples:
            raise nothing_seen()
        return self._state
