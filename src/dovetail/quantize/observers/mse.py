"""Choose the range with the least expected squared quantisation error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.quantize.observers.histogram import Density, HistogramObserver

_SHRINK = np.geomspace(1.0 / 256.0, 1.0, 97)
_REFINE = np.linspace(0.7, 1.3, 61)


@dataclass(frozen=True, slots=True)
class Quantiser:
    """The grid that a range leads to: the codes `lowest` to `highest` times `step`."""

    step: float
    lowest: int
    highest: int


def quantiser(low: float, high: float, bits: int, symmetric: bool) -> Quantiser:
    """Return the grid for a range: it holds zero exactly; symmetric has no use for the lowest code."""
    if symmetric:
        top = (1 << (bits - 1)) - 1
        return Quantiser(max(abs(low), abs(high)) / top, -top, top)
    low, high = min(low, 0.0), max(high, 0.0)
    steps = (1 << bits) - 1
    step = (high - low) / steps
    zero_point = round(-low / step) if step > 0 else 0
    return Quantiser(step, -zero_point, steps - zero_point)


def expected_error(density: Density, low: float, high: float, bits: int, symmetric: bool = False) -> float:
    """Return the mean squared error of quantising and clipping to [low, high].

    Values are taken as evenly spread inside a bin, and the error is integrated exactly: with u = x / step and
    n the nearest code, the integral of (u - round(u))^2 from 0 to u is n / 12 + (u - n)^3 / 3, and beyond the
    last code it grows with the cube of the distance.
    """
    grid = quantiser(low, high, bits, symmetric)
    widths = np.diff(density.edges)
    if grid.step <= 0 or not np.isfinite(1.0 / grid.step):
        middles = density.edges[:-1] + widths / 2
        return float(np.sum(density.counts * middles**2) / density.counts.sum())
    edges = density.edges / grid.step
    code = np.clip(np.rint(edges), grid.lowest, grid.highest)
    integral = np.diff(code / 12.0 + (edges - code) ** 3 / 3.0)
    spread = widths > 0
    mean = np.where(spread, integral / np.where(spread, widths / grid.step, 1.0), (edges[:-1] - code[:-1]) ** 2)
    return float(np.sum(density.counts * mean) / density.counts.sum() * grid.step**2)


class MseObserver(HistogramObserver):
    """Search clipping ranges for the least expected squared error; the full range is always a candidate."""

    def __init__(self, bits: int, symmetric: bool, bins: int) -> None:
        self._bits = bits
        self._symmetric = symmetric
        super().__init__(bins)

    def range(self) -> tuple[float, float]:
        density = self._histogram.density()
        low, high = density.low, density.high
        if low == high:
            return low, high
        best = self._best(density, [(low, high), *((low * f, high * f) for f in _SHRINK)])
        for _ in range(2):
            best = self._best(density, [best, *((best[0], min(high, best[1] * f)) for f in _REFINE)])
            best = self._best(density, [best, *((max(low, best[0] * f), best[1]) for f in _REFINE)])
        return float(best[0]), float(best[1])

    def _best(self, density: Density, candidates: list[tuple[float, float]]) -> tuple[float, float]:
        """Return the first of the best candidates, cut to the range of the data."""
        inside = [
            (max(density.low, min(a, density.high)), min(density.high, max(b, density.low))) for a, b in candidates
        ]
        ordered = [(a, b) for a, b in inside if a <= b]
        errors = [expected_error(density, a, b, self._bits, self._symmetric) for a, b in ordered]
        return ordered[int(np.argmin(errors))]
