"""Signal to noise slice by slice, so that a quiet head does not drown in a loud one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.compare.tensor_metrics import pair, sqnr_db
from dovetail.errors import DataError


@dataclass(frozen=True, slots=True)
class Head:
    """Entries `start` to `stop` (not included) of `axis` that share a unit, so may be pooled."""

    name: str
    start: int
    stop: int
    axis: int = -1


@dataclass(frozen=True, slots=True)
class SliceScore:
    """The SQNR of entries `start` to `stop` (not included) of `axis`; `None` is the whole tensor."""

    axis: int | None
    start: int
    stop: int
    sqnr_db: float
    name: str = ""

    def describe(self) -> str:
        """Write the place in words."""
        if self.name:
            return f"head {self.name!r}"
        return "the whole tensor" if self.axis is None else f"index {self.start} of axis {self.axis}"


def sqnr_db_along(golden: NDArray[Any], measured: NDArray[Any], axis: int) -> NDArray[np.float64]:
    """Return the SQNR `[n]` of every entry of `axis`, pooled over all other axes.

    Axis -1 gives output columns, axis 1 of `[N, C, H, W]` gives channels.
    """
    if not -golden.ndim <= axis < golden.ndim:
        raise DataError(f"compare: axis {axis} is outside a tensor of shape {list(golden.shape)}.")
    pair(golden, measured)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        a = np.moveaxis(golden, axis, 0).reshape(golden.shape[axis], -1).astype(np.float64)
        b = np.moveaxis(measured, axis, 0).reshape(golden.shape[axis], -1).astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        noise = np.where(same, 0.0, a - b)
        signal_power = np.sum(np.where(np.isfinite(a), a, 0.0) ** 2, axis=1)
        noise_power = np.sum(noise**2, axis=1)
        ratio = 10.0 * (np.log10(signal_power) - np.log10(noise_power))
    ratio = np.where(np.isfinite(noise_power), ratio, -math.inf)
    return np.asarray(np.where(noise_power == 0, math.inf, ratio), dtype=np.float64)


def judged_slices(
    golden: NDArray[Any],
    measured: NDArray[Any],
    heads: Sequence[Head] = (),
    axes: Sequence[int] | None = None,
) -> list[SliceScore]:
    """Score the slices that a verdict rests on.

    Declared `heads` are pooled inside and judged apart. Otherwise every entry of `axes`; by default all axes
    but the first of a tensor with three or more (boxes may sit on either side: `[1, N, 85]` and `[1, 85,
    N]`), and the whole tensor with fewer (class scores share a unit).
    Raises DataError for heads and axes outside the tensor.
    """
    if heads:
        return [_score_head(golden, measured, head) for head in heads]
    if axes is None:
        axes = range(1, golden.ndim) if golden.ndim >= 3 else ()
    scores: list[SliceScore] = []
    for axis in axes:
        values = sqnr_db_along(golden, measured, axis)
        place = axis % golden.ndim
        scores += [SliceScore(place, i, i + 1, float(value)) for i, value in enumerate(values)]
    return scores or [SliceScore(None, 0, golden.size, sqnr_db(golden, measured))]


def _score_head(golden: NDArray[Any], measured: NDArray[Any], head: Head) -> SliceScore:
    size = golden.shape[head.axis] if -golden.ndim <= head.axis < golden.ndim else 0
    if not 0 <= head.start < head.stop <= size:
        raise DataError(
            f"compare: head {head.name!r} {head.start}:{head.stop} of axis {head.axis} is outside "
            f"a tensor of shape {list(golden.shape)}."
        )
    pair(golden, measured)
    index = np.arange(head.start, head.stop)
    value = sqnr_db(np.take(golden, index, head.axis), np.take(measured, index, head.axis))
    return SliceScore(head.axis % golden.ndim, head.start, head.stop, value, head.name)


def worst_slice(
    golden: NDArray[Any],
    measured: NDArray[Any],
    heads: Sequence[Head] = (),
    axes: Sequence[int] | None = None,
) -> SliceScore:
    """Return the judged slice with the lowest SQNR; of equal ones the first."""
    return min(judged_slices(golden, measured, heads, axes), key=lambda score: score.sqnr_db)
