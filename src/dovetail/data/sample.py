"""What a sample is and what every source of samples can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class InputSpec:
    """The shape and the type that a model wants at one input; `None` is a symbolic dimension."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One item of a data set, ready to feed.

    `inputs` has the model's rank: a batch dimension of 1 is there when the model has one.
    `labels` has no batch dimension: a class id has shape `[]`, a set of accepted ids `[K]` padded with -1,
    boxes `[K, 5]` (class, x1, y1, x2, y2 in pixels of the model's input) padded with rows of -1.
    """

    id: str
    inputs: Mapping[str, NDArray[Any]]
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class SampleSource(Protocol):
    """Samples, given one at a time, as often as asked, in bounded memory."""

    @property
    def count(self) -> int | None:
        """Return how many samples there are; `None` when only a full pass can tell."""

    @property
    def digest(self) -> str:
        """Return a hash of the contents, 64 hexadecimal digits, the same on every machine."""

    def __iter__(self) -> Iterator[Sample]: ...

    def subset(self, indices: Sequence[int]) -> SampleSource:
        """Return only these samples, in the order of the source.

        Raises DataError for an index that is repeated or out of range.
        """
