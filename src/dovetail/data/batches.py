"""Samples that go through a model together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.data.sample import Sample
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples that go through the model together; inputs are stacked along the first dimension."""

    inputs: Mapping[str, AnyArray]
    samples: tuple[Sample, ...]


def batchable(graph: Graph) -> bool:
    """Tell whether every input and output has the same symbolic first dimension."""
    return _batch_symbol(graph, (*graph.inputs, *graph.outputs)) is not None


def wholly_batchable(graph: Graph) -> bool:
    """Tell whether every tensor that is computed has the batch as its first dimension, those inside included."""
    inside = [name for node in graph.nodes for name in node.outputs if name]
    return _batch_symbol(graph, (*graph.inputs, *graph.outputs, *inside)) is not None


def in_batches(samples: Iterable[Sample], most: int) -> Iterator[Batch]:
    """Yield samples in their order, in batches of equal shape and at most `most` samples."""
    waiting: list[Sample] = []
    for sample in samples:
        if waiting and (len(waiting) >= most or _shapes(sample) != _shapes(waiting[0])):
            yield _join(waiting)
            waiting = []
        waiting.append(sample)
    if waiting:
        yield _join(waiting)


def _batch_symbol(graph: Graph, names: Iterable[str]) -> str | None:
    shapes = [graph.types[name].shape for name in names]
    firsts = {shape[0] if shape else None for shape in shapes}
    first = next(iter(firsts)) if len(firsts) == 1 else None
    return first if isinstance(first, str) else None


def _shapes(sample: Sample) -> tuple[tuple[int, ...], ...]:
    return tuple(array.shape for array in sample.inputs.values())


def _join(samples: list[Sample]) -> Batch:
    if len(samples) == 1:
        return Batch(samples[0].inputs, tuple(samples))
    names = samples[0].inputs
    return Batch({name: np.concatenate([item.inputs[name] for item in samples]) for name in names}, tuple(samples))
