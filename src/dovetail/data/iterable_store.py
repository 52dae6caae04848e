"""Samples from any Python iterable of arrays, mappings or Samples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.reader import Wanted
from dovetail.data.sample import Sample
from dovetail.data.source import hash_text
from dovetail.errors import DataError

Item = NDArray[Any] | Mapping[str, NDArray[Any]] | Sample


class IterableStore:
    """Read samples from a list or any iterable; a one-shot iterator can be read once and has no digest."""

    def __init__(self, items: Iterable[Item], wanted: Wanted) -> None:
        self._items = items
        self._wanted = wanted
        self._one_shot = isinstance(items, Iterator)
        self._used = False
        self.count = len(items) if isinstance(items, Sized) else None
        if self.count == 0:
            raise DataError("the data set is empty.")

    def digest(self) -> str:
        """Hash every sample in one pass.

        Raises DataError for a one-shot iterator, whose samples would be lost.
        """
        if self._one_shot:
            raise DataError("a one-shot iterator has no digest.", hint="Pass a list or a re-iterable object.")
        digest = hashlib.sha256(self._wanted.digest().encode())
        for sample in self.read(None):
            parts = [sample.id]
            for kind, arrays in (("input", sample.inputs), ("label", sample.labels)):
                for name in sorted(arrays):
                    array = np.ascontiguousarray(arrays[name])
                    content = hashlib.sha256(array.tobytes()).hexdigest()
                    parts += [kind, name, array.dtype.str, str(array.shape), content]
            digest.update(hash_text(parts).encode())
        return digest.hexdigest()

    def read(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        if self._one_shot:
            if self._used:
                raise DataError("the samples came from a one-shot iterator, which is used up.", hint="Pass a list.")
            self._used = True
        return self._walk(indices)

    def _walk(self, indices: Sequence[int] | None) -> Iterator[Sample]:
        position = 0
        index = -1
        for index, sample in enumerate(self._items):
            if indices is None:
                yield self._sample(sample, index)
            elif indices[position] == index:
                yield self._sample(sample, index)
                position += 1
                if position == len(indices):
                    return
        if index < 0:
            raise DataError("the data set is empty.")
        if indices is not None:
            raise DataError(f"subset: index {indices[position]} is outside the data set of {index + 1} samples.")

    def _sample(self, item: Item, index: int) -> Sample:
        if isinstance(item, Sample):
            return Sample(item.id, self._wanted.inputs_of(item.inputs, item.id), item.labels)
        sample_id = f"{index:06d}"
        if isinstance(item, np.ndarray):
            name = self._wanted.single("an iterable of bare arrays").name
            return Sample(sample_id, self._wanted.inputs_of({name: item}, sample_id))
        if not isinstance(item, Mapping):
            raise DataError(
                f"sample {sample_id!r}: a {type(item).__name__} is not a sample.",
                hint="Give arrays, mappings from input name to array, or Samples.",
            )
        arrays = {str(name): np.asarray(value) for name, value in item.items()}
        inputs = self._wanted.inputs_of(arrays, sample_id)
        return Sample(sample_id, inputs, {name: array for name, array in arrays.items() if name not in inputs})
