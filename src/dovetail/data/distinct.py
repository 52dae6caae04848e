"""Samples that are copies of others: what is seen twice is no more evidence than what is seen once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from dovetail.data.sample import Sample, SampleSource
from dovetail.ir.dtypes import AnyArray


def distinct_samples(source: SampleSource) -> tuple[SampleSource, int]:
    """Return the samples without those that are copies of an earlier one, and how many were left out.

    Copies have equal inputs and labels, bit for bit, whatever their names are. Reads every sample once. A source
    without copies is returned as it is.
    """
    seen: set[bytes] = set()
    kept: list[int] = []
    count = 0
    for index, sample in enumerate(source):
        digest = _digest(sample)
        if digest not in seen:
            seen.add(digest)
            kept.append(index)
        count = index + 1
    return (source, 0) if len(kept) == count else (source.subset(kept), count - len(kept))


def _digest(sample: Sample) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in (*_parts(sample.inputs), b"labels", *_parts(sample.labels)):
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def _parts(arrays: Mapping[str, AnyArray]) -> Iterator[bytes]:
    for name in sorted(arrays):
        array = arrays[name]
        yield f"{name} {array.dtype.str} {array.shape}".encode()
        yield array.tobytes()
