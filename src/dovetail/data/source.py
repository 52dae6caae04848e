"""Turn a store of samples into a source with subsets and a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from dovetail.data.sample import Sample
from dovetail.errors import DataError

_CHUNK_BYTES = 1 << 20


class SampleStore(Protocol):
    """Read samples of one kind of file."""

    @property
    def count(self) -> int | None: ...

    def digest(self) -> str:
        """Hash all that decides the samples."""

    def read(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        """Yield the samples at ascending `indices`, or all."""


class StoredSamples:
    """Show a store, or some of it, as a SampleSource."""

    def __init__(self, store: SampleStore, indices: tuple[int, ...] | None = None) -> None:
        self._store = store
        self._indices = indices
        self._digest: str | None = None

    @property
    def count(self) -> int | None:
        return self._store.count if self._indices is None else len(self._indices)

    @property
    def digest(self) -> str:
        if self._digest is None:
            whole = self._store.digest()
            self._digest = whole if self._indices is None else hash_text([whole, repr(self._indices)])
        return self._digest

    def __iter__(self) -> Iterator[Sample]:
        return self._store.read(self._indices)

    def subset(self, indices: Sequence[int]) -> StoredSamples:
        chosen = sorted(int(i) for i in indices)
        if not chosen:
            raise DataError("subset: no sample was chosen.")
        if len(set(chosen)) != len(chosen):
            raise DataError("subset: an index is repeated.")
        if chosen[0] < 0 or (self.count is not None and chosen[-1] >= self.count):
            raise DataError(f"subset: index {chosen[0] if chosen[0] < 0 else chosen[-1]} is outside the data set.")
        if self._indices is not None:
            chosen = [self._indices[i] for i in chosen]
        return StoredSamples(self._store, tuple(chosen))


def hash_text(parts: Sequence[str]) -> str:
    """Hash texts so that no two lists share a digest by concatenation."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """Hash a file's bytes in pieces."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    return digest.hexdigest()


def hash_files(root: Path, names: Sequence[str]) -> str:
    """Hash files below `root` with their names."""
    return hash_text([part for name in names for part in (name, hash_file(root / name))])
