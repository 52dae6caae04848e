"""What a float model's outputs are, as seen on some samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from dovetail.compare.task import Arrays
from dovetail.data.sample import InputSpec
from dovetail.data.specs import specs_of
from dovetail.errors import DataError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.outputs import OutputsView, recognise, stack_runs
from dovetail.outputs.decode.found import find_detections
from dovetail.outputs.hints import Hints
from dovetail.outputs.layouts import DenseLayout, RowsLayout
from dovetail.quantize.calibrate import load_float

_RANDOM_SAMPLES = 3
_SIDE = 256
"""Rows and columns of a picture whose size a model leaves open: a multiple of the usual strides."""


@dataclass(frozen=True, slots=True)
class SeenOutputs:
    """What the outputs of a float model are, and what they were on the samples that it was seen on."""

    view: OutputsView
    golden: Arrays
    """`[N, ...]` by name."""

    @property
    def detections(self) -> int | None:
        """Return how many detections float has on these samples; None where no head detects."""
        layouts = [head.layout for head in self.view.decisions if isinstance(head.layout, DenseLayout | RowsLayout)]
        if not layouts:
            return None
        return sum(len(found.scores) for layout in layouts for found in find_detections(layout, self.golden))


def see_outputs(
    graph: Graph, feeds: Iterable[Mapping[str, AnyArray]], hints: Hints | None = None, threads: int = 0
) -> SeenOutputs:
    """Run a float model on the inputs of some samples, and return what its outputs are.

    Raises DataError where there is no sample, and where nothing fits the hints.
    """
    runs: list[Mapping[str, AnyArray]] = []
    shapes: dict[str, tuple[int, ...]] = {}
    with closing(load_float(graph, threads)) as model:
        for feed in feeds:
            shapes = shapes or {name: array.shape for name, array in feed.items()}
            runs.append(dict(model.run(feed)))
    if not runs:
        raise DataError("the data set is empty.", hint="Give at least two samples.")
    return SeenOutputs(recognise(graph, runs, shapes, hints), stack_runs(runs))


def see_random(graph: Graph, seed: int = 0, threads: int = 0) -> SeenOutputs:
    """Run a float model on random inputs, and return what its outputs are.

    Symbolic sizes count as 1, those of pictures as 256. Raises DovetailError where the model cannot be run on them.
    """
    rng = np.random.default_rng(seed)
    specs = specs_of(graph)
    feeds = ({spec.name: _random(spec, rng) for spec in specs} for _ in range(_RANDOM_SAMPLES))
    return see_outputs(graph, feeds, threads=threads)


def _random(spec: InputSpec, rng: np.random.Generator) -> AnyArray:
    """Return numbers in 0..1, for an input of 8 bits in 0..127."""
    pictures = len(spec.shape) == 4
    shape = tuple(
        size if size is not None else _SIDE if pictures and axis else 1 for axis, size in enumerate(spec.shape)
    )
    if spec.dtype.kind == "f":
        return rng.uniform(0, 1, shape).astype(spec.dtype)
    return rng.integers(0, 128 if spec.dtype.itemsize == 1 else 2, shape).astype(spec.dtype)
