"""Steps: how far two arrays of stored values are apart, element by element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir.dtypes import AnyArray

WIDEST = 8
"""Differences of more steps are counted together."""


@dataclass(frozen=True)
class Steps:
    """Elements counted by the size of their difference; the last entry is for `WIDEST` and more.

    A step is the last bit of an integer; of floats it is the unit in the last place of the largest finite value in
    their array: sums lose no more than that.
    """

    counts: tuple[int, ...] = (0,) * (WIDEST + 1)
    largest: int = 0

    @property
    def elements(self) -> int:
        """Return how many elements were compared."""
        return sum(self.counts)

    @property
    def share(self) -> float:
        """Return the share of equal elements; 1 where there are none."""
        return self.counts[0] / self.elements if self.elements else 1.0

    @property
    def differing(self) -> int:
        """Return how many elements differ."""
        return sum(self.counts[1:])

    def __add__(self, other: Steps) -> Steps:
        """Return both counts together."""
        counts = tuple(mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Steps(counts, max(self.largest, other.largest))


def compare_steps(first: AnyArray, other: AnyArray) -> Steps:
    """Return the differences of two arrays of stored values; those of other shapes or types differ everywhere."""
    if first.shape != other.shape or first.dtype != other.dtype:
        return Steps((*(0,) * WIDEST, max(first.size, 1)), np.iinfo(np.int64).max)
    if first.size == 0:
        return Steps()
    steps = _float_steps(first, other) if first.dtype.kind == "f" else np.abs(first.astype(np.int64) - other)
    found = np.bincount(np.minimum(steps, WIDEST).astype(np.int64).reshape(-1), minlength=WIDEST + 1)
    return Steps(tuple(int(count) for count in found), int(steps.max()))


def _float_steps(one: AnyArray, other: AnyArray) -> AnyArray:
    first, second = one.astype(np.float64), other.astype(np.float64)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    finite = np.isfinite(first) & np.isfinite(second)
    largest = float(np.abs(np.where(finite, second, 0.0)).max(initial=0.0))
    unit = max(largest, float(np.finfo(one.dtype).tiny)) * float(np.finfo(one.dtype).eps)
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.rint(np.abs(first - second) / unit)
    return np.where(same, 0.0, np.where(finite, np.minimum(steps, 2.0**31), 2.0**31))
