"""Samples that are read once and kept in memory, up to a number of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from dovetail.data.sample import Sample, SampleSource

_KEEP_BYTES = 1 << 30
"""Inputs that are kept in memory; what a larger data set has beyond is read again."""
_WINDOW = 32
"""Samples that are read together where they are asked for in another order than that of the source."""


class KeptSamples:
    """A source whose samples are kept as they are read; its subsets keep theirs in the same place.

    A source that does not know its count is read, and kept, as a whole.
    """

    def __init__(self, source: SampleSource) -> None:
        self._source = source
        self._store = _KeptStore(source)
        self._indices: Sequence[int] = range(self._store.count)
        self._digest: str | None = None

    @property
    def count(self) -> int:
        """Return how many samples there are."""
        return len(self._indices)

    @property
    def digest(self) -> str:
        """Return the digest of the source."""
        if self._digest is None:
            self._digest = self._source.digest
        return self._digest

    def __iter__(self) -> Iterator[Sample]:
        return self._store.read(self._indices)

    def subset(self, indices: Sequence[int]) -> KeptSamples:
        """Return only these samples, in the order of the source; raise DataError for what is no subset."""
        part = KeptSamples.__new__(KeptSamples)
        part._source, part._store, part._digest = self._source.subset(indices), self._store, None
        part._indices = [self._indices[index] for index in sorted(indices)]
        return part

    def at(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Yield the samples at these indices, in any order and as often as asked."""
        wanted = [self._indices[index] for index in indices]
        if all(first < second for first, second in pairwise(wanted)):
            yield from self._store.read(wanted)
            return
        for start in range(0, len(wanted), _WINDOW):
            window = wanted[start : start + _WINDOW]
            ascending = sorted(set(window))
            samples = dict(zip(ascending, self._store.read(ascending), strict=True))
            yield from (samples[index] for index in window)


def keep_samples(source: SampleSource) -> KeptSamples:
    """Return a source that keeps what it reads: the source itself where it does."""
    return source if isinstance(source, KeptSamples) else KeptSamples(source)


class _KeptStore:
    """The samples of a whole source, as many as there is room for."""

    def __init__(self, source: SampleSource) -> None:
        self._source = source
        self._room = _KEEP_BYTES
        self._kept: dict[int, Sample] = {}
        if source.count is None:
            self._kept = dict(enumerate(source))
        self.count = len(self._kept) if source.count is None else source.count

    def read(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Yield the samples at ascending indices."""
        missing = [index for index in indices if index not in self._kept]
        absent = frozenset(missing)
        stream = iter(self._source.subset(missing)) if missing else iter(())
        for index in indices:
            yield self._keep(index, next(stream)) if index in absent else self._kept[index]

    def _keep(self, index: int, sample: Sample) -> Sample:
        size = sum(array.nbytes for array in sample.inputs.values())
        if index not in self._kept and size <= self._room:
            self._room -= size
            self._kept[index] = sample
        return sample
