"""Cut a data set into disjoint parts, the same on every machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from dovetail.errors import DataError

_SEED_LIMIT = 2**32


def split(count: int, fractions: Sequence[float], seed: int) -> tuple[tuple[int, ...], ...]:
    """Return disjoint ascending indices, one tuple for each fraction.

    Sizes are cumulative fractions of `count`, rounded: they add up to `count` when the fractions add up to 1.
    Uses numpy's legacy generator, whose stream is frozen for ever.
    Raises DataError for fractions that are not positive or exceed 1 in sum, and for a part that would be
    empty.
    """
    if not fractions or not all(math.isfinite(f) and f > 0 for f in fractions) or sum(fractions) > 1 + 1e-9:
        raise DataError(f"split: fractions {list(fractions)} must be positive and add up to at most 1.")
    if not 0 <= seed < _SEED_LIMIT:
        raise DataError(f"split: seed {seed} is outside [0, 2^32).")
    if count < 0:
        raise DataError(f"split: count {count} is negative.")
    order = np.random.RandomState(seed).permutation(count)
    bounds = [0, *(min(count, round(count * total)) for total in np.cumsum(fractions).tolist())]
    parts = tuple(tuple(sorted(int(i) for i in order[start:stop])) for start, stop in itertools.pairwise(bounds))
    for fraction, part in zip(fractions, parts, strict=True):
        if not part:
            raise DataError(f"split: {fraction:g} of {count} samples leaves a part empty.", hint="Give more samples.")
    return parts
