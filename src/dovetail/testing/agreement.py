"""How far two executors agree on the stored values of one graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backend.protocols import Backend, CompileOptions, Executable, Signature
from dovetail.backend.target import Target
from dovetail.ir import AnyArray, Graph


@dataclass(frozen=True, slots=True)
class Agreement:
    """Count equal elements; `largest` is the largest difference in steps.

    A step of a float is the unit in the last place of the largest value in its array.
    """

    elements: int = 0
    equal: int = 0
    largest: int = 0

    @property
    def share(self) -> float:
        """Return the share of equal elements; 1 where there are none."""
        return self.equal / self.elements if self.elements else 1.0

    def __add__(self, other: Agreement) -> Agreement:
        """Return both counts together."""
        return Agreement(self.elements + other.elements, self.equal + other.equal, max(self.largest, other.largest))


def load_on(backend: Backend, graph: Graph, target: Target, options: CompileOptions) -> Executable:
    """Compile a graph and load it on the backend's first device."""
    return backend.devices()[0].load(backend.compile(graph, target, options), Signature.of(graph))


def agreement(one: Executable, other: Executable, samples: Sequence[Mapping[str, AnyArray]]) -> Agreement:
    """Return how far two executables agree on all outputs of some samples."""
    total = Agreement()
    for sample in samples:
        first, second = one.run(sample), other.run(sample)
        for name in first:
            total += compare_stored(first[name], second[name])
    return total


def compare_stored(one: AnyArray, other: AnyArray) -> Agreement:
    """Return how far two arrays of stored values agree; arrays of other shapes or types agree nowhere."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return Agreement(max(one.size, 1), 0, np.iinfo(np.int64).max)
    if one.size == 0:
        return Agreement()
    steps = _float_steps(one, other) if one.dtype.kind == "f" else np.abs(one.astype(np.int64) - other)
    return Agreement(one.size, int(np.count_nonzero(steps == 0)), int(steps.max()))


def _float_steps(one: AnyArray, other: AnyArray) -> AnyArray:
    """Return differences in units in the last place of the largest finite value: sums lose no more than that."""
    first, second = one.astype(np.float64), other.astype(np.float64)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    finite = np.isfinite(first) & np.isfinite(second)
    largest = float(np.abs(np.where(finite, second, 0.0)).max(initial=0.0))
    unit = max(largest, float(np.finfo(one.dtype).tiny)) * float(np.finfo(one.dtype).eps)
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.rint(np.abs(first - second) / unit)
    return np.where(same, 0.0, np.where(finite, steps, 2.0**31))
