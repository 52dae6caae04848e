"""The samples of a search: read once while they fit into memory, batched where the model allows it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dovetail.data.batches import Batch, batchable, in_batches
from dovetail.data.kept import keep_samples
from dovetail.data.sample import Sample, SampleSource
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph

_BATCH = 32
_BATCH_BYTES = 16 << 20
"""Most samples that go through the model together, and most bytes that one of its nodes reads and writes for them in
float32: more is slower, because it leaves the caches, and every thread of a simulation takes several times as much."""


class SampleSet:
    """The samples of a search, by index, again and again."""

    def __init__(self, graph: Graph, source: SampleSource) -> None:
        self._kept = keep_samples(source)
        self._batch = batch_size(graph)
        self.count = self._kept.count
        if not self.count:
            raise DataError("the data set is empty: there is nothing to evaluate on.", hint="Give at least one sample.")
        self.digest = self._kept.digest

    def batches(self, indices: Sequence[int]) -> Iterator[Batch]:
        """Yield the samples at these indices, in this order, in batches of equal shape."""
        yield from in_batches(self.samples(indices), self._batch)

    def samples(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Yield the samples at these indices."""
        return self._kept.at(indices)

    def labels(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        """Return the labels of the samples at these indices, stacked to `[N, ...]`."""
        rows = [sample.labels for sample in self.samples(indices)]
        names = rows[0].keys() if rows else ()
        return {name: np.stack([row[name] for row in rows]) for name in names}


def batch_size(graph: Graph) -> int:
    """Return how many samples go through a model together; sizes that the model leaves open count as 1."""
    if not batchable(graph):
        return 1
    largest = max((_elements(graph, (*node.inputs, *node.outputs)) for node in graph.nodes), default=1)
    return min(_BATCH, max(1, _BATCH_BYTES // (4 * max(largest, 1))))


def _elements(graph: Graph, names: Sequence[str]) -> int:
    shapes = [graph.types[name].shape or () for name in names if name and name not in graph.constants]
    return sum(math.prod(size if isinstance(size, int) else 1 for size in shape) for shape in shapes)


def stack_outputs(graph: Graph, runs: Sequence[Mapping[str, AnyArray]]) -> dict[str, AnyArray]:
    """Return outputs of several runs as `[N, ...]`.

    Raises DataError when the runs give different shapes.
    """
    stacked: dict[str, AnyArray] = {}
    for name in graph.outputs:
        arrays = [run[name] for run in runs]
        shape = graph.types[name].shape
        joins = shape is not None and len(shape) > 0 and (shape[0] == 1 or not isinstance(shape[0], int))
        try:
            stacked[name] = np.concatenate(arrays) if joins else np.stack(arrays)
        except ValueError as error:
            raise DataError(
                f"output '{name}' differs in shape from sample to sample and cannot be scored as one array: {error}.",
                hint="Resize the inputs to one shape.",
            ) from error
    return stacked
