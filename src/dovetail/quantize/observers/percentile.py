"""Keep the middle share of the values."""

from __future__ import annotations

import numpy as np

from dovetail.quantize.observers.histogram import Density, HistogramObserver


class PercentileObserver(HistogramObserver):
    """Cut (100 - percentile) / 2 percent of the values on either side; 100 gives the extremes.

    A quantile inside a bin is interpolated, so it is off by at most one bin width.
    """

    def __init__(self, percentile: float, bins: int) -> None:
        self._cut = (100.0 - percentile) / 200.0
        super().__init__(bins)

    def range(self) -> tuple[float, float]:
        density = self._histogram.density()
        if self._cut == 0:
            return density.low, density.high
        low, high = quantile(density, self._cut), quantile(density, 1.0 - self._cut)
        return low, max(low, high)


def quantile(density: Density, share: float) -> float:
    """Return the value below which `share` of the values lie, 0 < share < 1."""
    below = np.concatenate([[0], np.cumsum(density.counts)]).astype(np.float64)
    target = share * below[-1]
    bin_index = int(np.searchsorted(below[1:], target, side="left"))
    inside = (target - below[bin_index]) / (below[bin_index + 1] - below[bin_index])
    left, right = density.edges[bin_index], density.edges[bin_index + 1]
    return float(np.clip(left + inside * (right - left), left, right))
