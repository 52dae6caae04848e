"""Cut a data set into disjoint parts, the same on every machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.data.sample import SampleSource
from dovetail.errors import DataError

_SEED_LIMIT = 2**32


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How samples are divided between a search and its check."""

    holdout: float = 0.4
    """Share of the samples that the search never sees."""
    seed: int = 0
    """Seed of the draw, in [0, 2^32)."""

    def __post_init__(self) -> None:
        if not 0 < self.holdout < 1:
            raise DataError(
                f"a hold-out share of {self.holdout:g} is outside (0, 1).", hint="0.4 is usual.", option="holdout"
            )


@dataclass(frozen=True, slots=True)
class Splits:
    """The samples that a search may see and those that it never sees, as ascending indices."""

    search: tuple[int, ...]
    holdout: tuple[int, ...]
    seed: int = 0
    """Seed of the draw; the order in which a search looks at samples follows from it too."""

    def __post_init__(self) -> None:
        if not (self.search and self.holdout):
            raise DataError("a split needs samples on both sides.", hint="Give more samples.")
        if set(self.search) & set(self.holdout):
            raise DataError("the search must not see samples of the hold-out.", hint="Take each sample once.")


def split_samples(samples: SampleSource, options: SplitOptions | None = None) -> Splits:
    """Divide a data set once; raise DataError when it has fewer than two samples."""
    chosen = options or SplitOptions()
    count = samples.count if samples.count is not None else sum(1 for _ in samples)
    if count < 2:
        raise DataError(
            f"{count} samples cannot be divided between the search and the hold-out.", hint="Give at least two."
        )
    holdout, search = split(count, (chosen.holdout, 1 - chosen.holdout), chosen.seed)
    return Splits(search, holdout, chosen.seed)


def first_samples(source: SampleSource, limit: int | None) -> SampleSource:
    """Return at most the first `limit` samples; raise DataError for a limit below one."""
    if limit is None:
        return source
    if limit < 1:
        raise DataError(f"{limit} samples are too few.", hint="Ask for at least one.")
    count = source.count
    return source if count is not None and count <= limit else source.subset(range(limit))


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
