"""What a network does to noise: enough to tell which of its tensors 8 bits would spoil, with no data at all.

How far apart the channels of a tensor lie is mostly a matter of the weights. Noise of single pixels says nothing of
layers that average over many, so that half of the samples are coarse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dovetail.data.sample import Sample
from dovetail.errors import DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.quantize.calibrate import Calibration, calibrate

_SAMPLES = 16
_COARSE = 8
"""Side of a block of equal values in coarse noise."""

_MOST_ELEMENTS = 1 << 24


class _Noise:
    """Samples in [0, 1), each the same on every machine: every other one coarse over the last two axes."""

    def __init__(self, graph: Graph, numbers: Sequence[int]) -> None:
        self._graph = graph
        self._numbers = numbers
        self.count: int | None = len(numbers)
        self.digest = "0" * 64

    def __iter__(self) -> Iterator[Sample]:
        for number in self._numbers:
            # numpy's legacy generator: its stream is frozen, so that a log can be replayed.
            random = np.random.RandomState(number)
            inputs = {name: self._draw(random, name, number % 2 == 1) for name in self._graph.inputs}
            yield Sample(f"noise {number}", inputs)

    def subset(self, indices: Sequence[int]) -> _Noise:
        return _Noise(self._graph, [self._numbers[index] for index in indices])

    def _draw(self, random: np.random.RandomState, name: str, coarse: bool) -> AnyArray:
        kind = self._graph.types[name]
        dims = kind.shape or ()
        # Only the batch may be open.
        shape = tuple(1 if index == 0 and not isinstance(dim, int) else dim for index, dim in enumerate(dims))
        sizes = [dim for dim in shape if isinstance(dim, int)]
        if len(sizes) < len(shape) or not kind.holds_reals or np.prod(sizes, dtype=np.float64) > _MOST_ELEMENTS:
            raise DovetailError(f"input '{name}' cannot be noise: its shape is open, or it holds no real numbers.")
        fine = (*sizes[:-2], *(-(-size // _COARSE) for size in sizes[-2:])) if coarse else sizes
        values: AnyArray = random.uniform(0.0, 1.0, fine)
        for axis in range(max(0, len(sizes) - 2), len(sizes)) if coarse else ():
            values = np.take(np.repeat(values, _COARSE, axis), range(sizes[axis]), axis)
        return np.asarray(values, kind.dtype.carrier, order="C")


def calibrate_on_noise(graph: Graph) -> Calibration | None:
    """Return what noise does in a network; None where it cannot be fed noise or breaks on it."""
    try:
        return calibrate(graph, _Noise(graph, range(_SAMPLES)))
    except DovetailError:
        return None
