"""One quantised node with stored inputs, and how its outputs compare with a judge's."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.backend.arithmetic import EXACT, Arithmetic, Rounding, Tie, ZeroPointOrder
from dovetail.backends.reference import run_graph
from dovetail.ir import AnyArray, DType, Graph, Quantization
from dovetail.ir.precision import Precision
from dovetail.testing.cases import CASES, quantized

HALF_AWAY = Arithmetic(Rounding(Tie.AWAY, ZeroPointOrder.BEFORE))
"""Ties away from zero, after the zero point: how TFLite divides an average."""
_BY_NAME = {case.name: case for case in CASES}
_ELEMENTS = 10_000
"""Random inputs are drawn until the outputs have this many elements, and at least _FEWEST times."""
_FEWEST = 12


@dataclass(frozen=True, slots=True)
class Trial:
    """A case at a precision; the graph may be adjusted to what a judge can express."""

    name: str
    precision: Precision
    graph: Graph
    inputs: tuple[Mapping[str, AnyArray], ...]
    arithmetic: Arithmetic = EXACT

    @property
    def label(self) -> str:
        """Return the row's name, such as `Conv.dilated i8pc`."""
        rounding = " half away" if self.arithmetic is HALF_AWAY else ""
        return f"{self.name} {self.precision.value}{rounding}"

    def expected(self) -> list[AnyArray]:
        """Return what the reference computes for the first output."""
        return [run_graph(self.graph, feed, self.arithmetic)[self.graph.outputs[0]] for feed in self.inputs]


@dataclass(frozen=True, slots=True)
class Score:
    """Say how far a judge and the reference agree; differences are in steps of the stored type."""

    judge: str
    label: str
    elements: int
    equal: int
    max_lsb: int

    @property
    def share(self) -> float:
        """Return the share of equal elements."""
        return self.equal / self.elements


def make_trial(name: str, precision: Precision, arithmetic: Arithmetic = EXACT) -> Trial:
    """Return the case of that name at a precision, with more random inputs."""
    found = quantized(_BY_NAME[name], precision)
    generator = np.random.default_rng((zlib.crc32(name.encode()), 7))
    size = math.prod(found.graph.types[found.graph.outputs[0]].static_shape or ())
    drawn = [
        {key: _uniform(generator, value, found.graph.types[key].dtype) for key, value in found.inputs[0].items()}
        for _ in range(max(_FEWEST, _ELEMENTS // size))
    ]
    return Trial(name, precision, found.graph, (*found.inputs, *drawn), arithmetic)


def _uniform(generator: np.random.Generator, like: AnyArray, dtype: DType) -> AnyArray:
    if dtype.is_float:
        return np.asarray(generator.uniform(like.min(), like.max(), like.shape)).astype(like.dtype)
    lowest, highest = dtype.integer_range
    return np.asarray(generator.integers(lowest, highest + 1, like.shape)).astype(like.dtype)


def one_scale(trial: Trial) -> Trial:
    """Give every quantised input and the output the type of the first input."""
    kinds = dict(trial.graph.types)
    quant = kinds[trial.graph.inputs[0]].quant
    for name in (*trial.graph.inputs, *trial.graph.outputs):
        kinds[name] = replace(kinds[name], quant=quant)
    return replace(trial, graph=trial.graph.evolve(types=kinds))


def output_scale(trial: Trial, scale: float, zero_point: int) -> Trial:
    """Give the output the quantisation that the judge demands."""
    kinds = dict(trial.graph.types)
    name = trial.graph.outputs[0]
    kinds[name] = replace(kinds[name], quant=Quantization((scale,), (zero_point,)))
    return replace(trial, graph=trial.graph.evolve(types=kinds))


def score(judge: str, trial: Trial, found: Sequence[AnyArray]) -> Score:
    """Compare a judge's outputs with the reference's; raise ValueError when shapes or types differ."""
    return score_values(judge, trial.label, found, trial.expected())


def score_values(judge: str, label: str, found: Sequence[AnyArray], expected: Sequence[AnyArray]) -> Score:
    """Compare two lists of outputs; raise ValueError when shapes or types differ."""
    elements = equal = largest = 0
    for got, want in zip(found, expected, strict=True):
        if got.shape != want.shape or got.dtype != want.dtype:
            raise ValueError(f"{label}: {got.dtype}{got.shape} for {want.dtype}{want.shape}")
        steps = np.abs(got.astype(np.int64) - want.astype(np.int64)) if want.dtype.kind != "f" else (got != want)
        elements, equal = elements + steps.size, equal + int((steps == 0).sum())
        largest = max(largest, int(steps.max(initial=0)))
    return Score(judge, label, elements, equal, largest)
