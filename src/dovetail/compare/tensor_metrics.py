"""Pure functions of a golden tensor and a measured one.

Both have one shape, any shape. An element whose golden value is not finite must be matched exactly and is
then left out. Every other value of the measured tensor that is not finite counts as unbounded error: SQNR
-inf, distances inf, cosine 0. A DataError says when shapes differ or a tensor holds no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DataError

TensorMetric = Callable[[NDArray[Any], NDArray[Any]], float]


@dataclass(frozen=True, slots=True)
class Pair:
    """The finite part of two tensors, flat; `non_finite` counts the unusable measured values."""

    golden: NDArray[np.float64]
    measured: NDArray[np.float64]
    non_finite: int


def pair(golden: NDArray[Any], measured: NDArray[Any]) -> Pair:
    """Check two tensors and keep what can be compared."""
    if golden.shape != measured.shape:
        raise DataError(f"compare: shapes differ: golden {list(golden.shape)}, measured {list(measured.shape)}.")
    for name, array in (("golden", golden), ("measured", measured)):
        if array.dtype.kind not in "biuf":
            raise DataError(f"compare: the {name} tensor has dtype {array.dtype}, which is not numeric.")
    a, b = golden.reshape(-1).astype(np.float64), measured.reshape(-1).astype(np.float64)
    good = np.isfinite(a) & np.isfinite(b)
    if good.all():
        return Pair(a, b, 0)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return Pair(a[good], b[good], int(np.count_nonzero(~good & ~same)))


def cosine(golden: NDArray[Any], measured: NDArray[Any]) -> float:
    """Return the cosine of the angle; two zero tensors give 1, a zero and another one 0."""
    p = pair(golden, measured)
    if p.non_finite:
        return 0.0
    top_a, top_b = _peak(p.golden), _peak(p.measured)
    if top_a == 0 or top_b == 0:
        return 1.0 if top_a == top_b else 0.0
    a, b = p.golden / top_a, p.measured / top_b
    return float(np.clip(np.dot(a, b) / math.sqrt(float(np.dot(a, a)) * float(np.dot(b, b))), -1.0, 1.0))


def euclidean(golden: NDArray[Any], measured: NDArray[Any]) -> float:
    """Return the length of the difference."""
    p = pair(golden, measured)
    if p.non_finite:
        return math.inf
    return float(np.linalg.norm(p.golden - p.measured))


def sqnr_db(golden: NDArray[Any], measured: NDArray[Any]) -> float:
    """Return 10 log10(sum a^2 / sum (a - b)^2): +inf without noise, -inf with noise and no signal."""
    p = pair(golden, measured)
    if p.non_finite:
        return -math.inf
    noise = p.golden - p.measured
    return ratio_db(float(np.dot(p.golden, p.golden)), float(np.dot(noise, noise)))


def ratio_db(signal: float, noise: float) -> float:
    """Return a ratio of powers in dB: +inf where the noise is 0, else -inf where the signal is."""
    if noise == 0:
        return math.inf
    return 10.0 * (math.log10(signal) - math.log10(noise)) if signal > 0 else -math.inf


def max_abs_error(golden: NDArray[Any], measured: NDArray[Any]) -> float:
    """Return the largest difference."""
    p = pair(golden, measured)
    return math.inf if p.non_finite else _peak(p.golden - p.measured)


def mean_abs_error(golden: NDArray[Any], measured: NDArray[Any]) -> float:
    """Return the mean difference; 0 for empty tensors."""
    p = pair(golden, measured)
    if p.non_finite:
        return math.inf
    return float(np.mean(np.abs(p.golden - p.measured))) if p.golden.size else 0.0


def lsb_histogram(golden: NDArray[Any], measured: NDArray[Any]) -> dict[int, int]:
    """Count the elements for each difference measured - golden of two integer tensors."""
    if golden.dtype.kind not in "biu" or measured.dtype.kind not in "biu":
        raise DataError(f"compare: {golden.dtype} and {measured.dtype} are not both integers.")
    if golden.shape != measured.shape:
        raise DataError(f"compare: shapes differ: golden {list(golden.shape)}, measured {list(measured.shape)}.")
    wide = object if max(golden.dtype.itemsize, measured.dtype.itemsize) > 4 else np.int64
    differences, counts = np.unique(measured.astype(wide) - golden.astype(wide), return_counts=True)
    return {int(d): int(c) for d, c in zip(differences, counts, strict=True)}


def top_k_agreement(golden: NDArray[Any], measured: NDArray[Any], k: int = 1) -> float:
    """Return the mean share of the k largest entries of the last axis that both have; ties go to the first.

    A row with NaN agrees with nothing.
    """
    pair(golden, measured)
    if golden.ndim == 0 or golden.size == 0 or not 1 <= k <= golden.shape[-1]:
        raise DataError(f"compare: top-{k} of a tensor of shape {list(golden.shape)} is not defined.")
    a, b = golden.reshape(-1, golden.shape[-1]), measured.reshape(-1, golden.shape[-1])
    best_a, best_b = top_k(a, k), top_k(b, k)
    shared = (best_a[:, :, None] == best_b[:, None, :]).any(axis=2).mean(axis=1)
    usable = ~(np.isnan(a).any(axis=1) | np.isnan(b).any(axis=1)) if a.dtype.kind == b.dtype.kind == "f" else True
    return float(np.mean(np.where(usable, shared, 0.0)))


def top_k(rows: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the indices `[N, k]` of the largest entries of `[N, C]`, largest first, ties in order."""
    return np.argsort(-rows.astype(np.float64), axis=1, kind="stable")[:, :k]


def _peak(values: NDArray[np.float64]) -> float:
    return float(np.max(np.abs(values))) if values.size else 0.0


TENSOR_METRICS: Mapping[str, TensorMetric] = {
    "cosine": cosine,
    "euclidean": euclidean,
    "sqnr_db": sqnr_db,
    "max_abs_error": max_abs_error,
    "mean_abs_error": mean_abs_error,
    "top1_agreement": top_k_agreement,
}
