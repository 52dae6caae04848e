"""A histogram that widens its bins instead of growing.

Bins are `[j * w, (j + 1) * w)` with w = 2^exponent, anchored at zero, and the exponent depends on nothing but
the smallest and largest value seen. So the counts are the same for every order of the samples and for merged
parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dovetail.quantize.observers.base import extremes, nothing_seen

_CHUNK_VALUES = 1 << 16
_MIN_EXPONENT = -120  # below it, scaling float32 would lose values
_MANTISSA_BITS = 22  # bins are no finer than the float32 spacing of the largest value


@dataclass(frozen=True, slots=True)
class Density:
    """Show what a histogram knows: `counts[i]` values between `edges[i]` and `edges[i + 1]`.

    The outermost edges are the exact minimum and maximum.
    """

    counts: NDArray[np.int64]
    edges: NDArray[np.float64]

    @property
    def low(self) -> float:
        return float(self.edges[0])

    @property
    def high(self) -> float:
        return float(self.edges[-1])


class Histogram:
    """Count values in at most `bins` bins."""

    def __init__(self, bins: int) -> None:
        self.count = 0
        self._bins = bins
        self._low = float("inf")
        self._high = float("-inf")
        self._exponent = _MIN_EXPONENT
        self._first = 0
        self._counts = np.zeros(0, dtype=np.int64)

    def update(self, array: NDArray[Any]) -> None:
        """Count the values of one sample.

        Raises DataError for NaN or infinity.
        """
        if not array.size:
            return
        self._widen(*extremes(array))
        flat = array.reshape(-1)
        working = flat.dtype if flat.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        scale = working.type(math.ldexp(1.0, -self._exponent))
        first = working.type(self._first)
        for start in range(0, flat.size, _CHUNK_VALUES):
            values = flat[start : start + _CHUNK_VALUES].astype(working)
            scaled = values * scale
            if self._exponent > 0 and self._low < 0:
                scaled[(values < 0) & (scaled == 0)] = -1  # it scaled to zero from below
            np.floor(scaled, out=scaled)
            np.subtract(scaled, first, out=scaled)
            self._counts += np.bincount(scaled.astype(np.intp), minlength=self._counts.size)
        self.count += flat.size

    def merge(self, other: Self) -> None:
        """Add the counts of `other`."""
        if other.count:
            self._widen(other._low, other._high)
            self._add(other)
            self.count += other.count

    def density(self) -> Density:
        """Return the counts with their edges.

        Raises DataError when no value was seen.
        """
        if not self.count:
            raise nothing_seen()
        edges = np.ldexp(np.arange(self._first, self._first + self._counts.size + 1, dtype=np.float64), self._exponent)
        edges[0], edges[-1] = self._low, self._high
        return Density(self._counts.copy(), edges)

    def _widen(self, low: float, high: float) -> None:
        """Make room for a new range; the counts move, none is lost."""
        old = Histogram.__new__(Histogram)
        old._exponent, old._first, old._counts = self._exponent, self._first, self._counts
        self._low, self._high = min(self._low, low), max(self._high, high)
        self._exponent = _exponent(self._low, self._high, self._bins, old._exponent)
        self._first = _bin(self._low, self._exponent)
        self._counts = np.zeros(_bin(self._high, self._exponent) - self._first + 1, dtype=np.int64)
        self._add(old)

    def _add(self, other: Histogram) -> None:
        """Add counts whose bins are as wide or narrower; halving an index is exact."""
        if other._counts.size:
            # No index needs more than `_MANTISSA_BITS` bits, so longer shifts all say the same.
            shift = min(self._exponent - other._exponent, 62)
            index = ((other._first + np.arange(other._counts.size)) >> shift) - self._first
            weights = other._counts.astype(np.float64)  # exact below 2^53 values
            self._counts += np.bincount(index, weights, minlength=self._counts.size).astype(np.int64)


class HistogramObserver:
    """A histogram of the values; what is made of it is for the subclass to say."""

    def __init__(self, bins: int) -> None:
        self._histogram = Histogram(bins)

    @property
    def count(self) -> int:
        return self._histogram.count

    def update(self, array: NDArray[Any]) -> None:
        self._histogram.update(array)

    def merge(self, other: Self) -> None:
        self._histogram.merge(other._histogram)


def _bin(value: float, exponent: int) -> int:
    return math.floor(math.ldexp(value, -exponent))


def _exponent(low: float, high: float, bins: int, at_least: int) -> int:
    """Return the smallest exponent, not below `at_least`, at which the range fits into `bins` bins."""
    largest = max(abs(low), abs(high))
    exponent = max(at_least, _MIN_EXPONENT)
    if largest > 0:
        exponent = max(exponent, math.frexp(largest)[1] - _MANTISSA_BITS)
    while _bin(high, exponent) - _bin(low, exponent) >= bins:
        exponent += 1
    return exponent
