"""Outputs that models gave, kept for whoever needs them again: the float model's, and those of exact plans."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.quantize.cache import BoundedCache

Outputs = dict[str, AnyArray]
"""`[N, ...]` by name."""


class KeptOutputs:
    """Outputs on the samples of one source, up to a number of bytes. Not for two threads."""

    def __init__(self, most_bytes: int) -> None:
        self._kept = BoundedCache[Outputs](most_bytes)

    @property
    def size_bytes(self) -> int:
        """Return what is kept."""
        return self._kept.size_bytes

    def whole(self, key: Hashable, indices: Sequence[int], compute: Callable[[Sequence[int]], Outputs]) -> Outputs:
        """Return outputs on just these samples, in this order."""
        entry = (key, tuple(indices))
        kept = self._kept.get(entry)
        return self._put(entry, compute(indices)) if kept is None else kept

    def rows(self, key: Hashable, indices: Sequence[int], compute: Callable[[Sequence[int]], Outputs]) -> Outputs:
        """Return outputs on some samples; only those that are missing are computed.

        What `compute` gives for a sample may not depend on the others.
        """
        rows = {index: row for index in dict.fromkeys(indices) if (row := self._kept.get((key, index))) is not None}
        missing = [index for index in dict.fromkeys(indices) if index not in rows]
        if missing:
            fresh = compute(missing)
            if any(len(values) != len(missing) for values in fresh.values()):
                # So many rows a sample as it has objects: nothing tells whose they are.
                return fresh if len(missing) == len(indices) else compute(indices)
            for place, index in enumerate(missing):
                row = {name: values[place : place + 1].copy() for name, values in fresh.items()}
                rows[index] = self._put((key, index), row)
        first = rows[indices[0]]
        return {name: np.concatenate([rows[index][name] for index in indices]) for name in first}

    def _put(self, entry: Hashable, outputs: Outputs) -> Outputs:
        return self._kept.put(entry, outputs, sum(array.nbytes for array in outputs.values()))
