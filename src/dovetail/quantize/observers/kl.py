"""Choose the range whose quantised distribution diverges least from the real one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizeError
from dovetail.quantize.observers.histogram import Density, HistogramObserver

_SMOOTHING = 1e-4  # mass given to empty bins, as in MXNet's and ONNX Runtime's calibrators
_CANDIDATES = 128


class KlObserver(HistogramObserver):
    """Minimise the Kullback-Leibler divergence, as TensorRT and ONNX Runtime do.

    Source: S. Migacz, "8-bit Inference with TensorRT", GTC 2017, slides 34-38. There the histogram is of |x|
    and one threshold is sought; here a window [low, high] is, its upper and lower ends in turn, always with
    zero inside the grid. `symmetric` moves both ends together, which is ONNX Runtime's search.
    """

    def __init__(self, bits: int, symmetric: bool, bins: int) -> None:
        if (1 << bits) * 2 > bins:
            raise QuantizeError(
                f"calibration: kl cannot tell {1 << bits} levels apart with {bins} bins.",
                hint="Use minmax, percentile or mse for 16 bits.",
            )
        self._levels = 1 << bits
        self._symmetric = symmetric
        super().__init__(bins)

    def range(self) -> tuple[float, float]:
        density = self._histogram.density()
        window = _Window(density, self._levels)
        start, stop = window.search_both() if self._symmetric else window.search_each()
        low = float(np.clip(window.edges[start], density.low, density.high))
        high = float(np.clip(window.edges[stop], density.low, density.high))
        return low, high


class _Window:
    """Search windows [start, stop) of a histogram that is padded to hold zero."""

    def __init__(self, density: Density, levels: int) -> None:
        counts, edges = density.counts, density.edges.copy()
        self._levels = levels
        if counts.size > 2:
            width = edges[2] - edges[1]
            # Bins are anchored at zero, so whole bins reach it.
            before = max(0, round(edges[1] / width) - 1)
            after = max(0, round(-edges[-2] / width) - 1)
            first = edges[1] - width * (1 + before)
            if before + after <= 8 * counts.size:
                counts = np.concatenate([np.zeros(before, np.int64), counts, np.zeros(after, np.int64)])
                edges = first + width * np.arange(counts.size + 1)
        self.edges = edges
        self._zero = int(np.clip(np.searchsorted(edges, 0.0, side="right") - 1, 0, counts.size - 1))
        counts = _without_zeros(counts, self._zero)
        self._counts = counts.astype(np.float64)
        self._sums = np.concatenate([[0.0], np.cumsum(self._counts)])
        self._filled = np.concatenate([[0], np.cumsum(counts > 0)])

    def search_both(self) -> tuple[int, int]:
        """Grow a window around zero; return the one with the least divergence."""
        size = self._counts.size
        reach = max(self._zero + 1, size - self._zero)
        halves = _spaced(self._levels // 2, reach)
        windows = [(max(0, self._zero - h), min(size, self._zero + h + 1)) for h in halves]
        return self._best(windows or [(0, size)])

    def search_each(self) -> tuple[int, int]:
        """Move the upper end, then the lower one, twice."""
        size = self._counts.size
        start, stop = 0, size
        for _ in range(2):
            lowest = max(start + self._levels, self._zero + 1)
            start, stop = self._best([(start, s) for s in _spaced(lowest, size)] or [(start, stop)])
            highest = min(stop - self._levels, self._zero)
            start, stop = self._best([(s, stop) for s in _spaced(0, highest)] or [(start, stop)])
        return start, stop

    def _best(self, windows: list[tuple[int, int]]) -> tuple[int, int]:
        """Return the widest of the windows with the least divergence."""
        ordered = sorted(windows, key=lambda window: window[0] - window[1])
        return ordered[int(np.argmin([self._divergence(*window) for window in ordered]))]

    def _divergence(self, start: int, stop: int) -> float:
        """Return D(P || Q) in nats: P has the outliers in its end bins, Q is merged into levels."""
        inner = self._counts[start:stop]
        real = inner.copy()
        real[0] += self._sums[start]
        real[-1] += self._sums[-1] - self._sums[stop]
        bounds = start + np.arange(self._levels + 1) * (stop - start) // self._levels
        mass = np.diff(self._sums[bounds])
        filled = np.diff(self._filled[bounds])
        share = np.divide(mass, filled, out=np.zeros_like(mass), where=filled > 0)
        merged = np.where(inner > 0, np.repeat(share, np.diff(bounds)), 0.0)
        p, q = _smooth(real), _smooth(merged)
        return float(np.sum(p * np.log(p / q)))


def _without_zeros(counts: NDArray[np.int64], zero: int) -> NDArray[np.int64]:
    """Cut the spike of exact zeros down to its neighbours: every grid represents zero without error.

    As in NVIDIA's pytorch-quantization, whose histogram calibrator sets bin 0 to bin 1.
    """
    beside = np.concatenate([counts[max(0, zero - 1) : zero], counts[zero + 1 : zero + 2]])
    if beside.size == 0 or beside.max() == 0:
        return counts
    lowered = counts.copy()
    lowered[zero] = min(int(counts[zero]), int(beside.max()))
    return lowered


def _smooth(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a distribution without zeros; the mass for the empty bins comes from the filled ones."""
    total = counts.sum()
    if total <= 0:
        return np.full(counts.size, 1.0 / counts.size)
    empty = counts == 0
    smoothed = np.where(empty, _SMOOTHING / counts.size, counts / total)
    return np.asarray(smoothed / smoothed.sum(), dtype=np.float64)


def _spaced(first: int, last: int) -> list[int]:
    """Return at most `_CANDIDATES` whole numbers from `first` to `last`, both included."""
    if first > last:
        return []
    return sorted({int(v) for v in np.linspace(first, last, min(_CANDIDATES, last - first + 1)).round()})
