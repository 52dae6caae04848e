"""Do the same places break in 8 bits in two files of one network?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import dovetail
from dovetail.backend.registry import find_target
from dovetail.compare.slices import sqnr_db_along
from dovetail.compare.task import Arrays, Reference, TaskMetric
from dovetail.data import Sample, SampleSource, open_samples, specs_of
from dovetail.ir import Graph
from dovetail.plan import Recipe, make_plan, parse_placement
from dovetail.quantize import Calibration
from dovetail.search import CostOptions, TuneOptions, TuneRequest
from dovetail.search.evaluator import EvaluationData, Rewriter
from dovetail.search.samples import SampleSet
from zoo.case import Dataset

_LOW = parse_placement("vsi:a311d@u8")
_BETTER_DB = 3.0


@dataclass(frozen=True, slots=True)
class CloseToFloat:
    """Share of samples of which every output is this close to the float model's, signal to noise in dB."""

    least_db: float
    higher_is_better: bool = True
    reference: Reference = Reference.GOLDEN

    @property
    def name(self) -> str:
        """Return the name with the bound."""
        return f"samples within {self.least_db:.1f} dB"

    def per_sample(self, outputs: Arrays, labels: Arrays) -> NDArray[np.float64]:
        """Return `[N]`, 1 or 0."""
        return np.asarray(worst_db(outputs, labels) >= self.least_db, np.float64)

    def score(self, outputs: Arrays, labels: Arrays) -> float:
        """Return the mean over the samples."""
        return float(self.per_sample(outputs, labels).mean())


def worst_db(outputs: Arrays, golden: Arrays) -> NDArray[np.float64]:
    """Return the signal to noise of every sample's worst output."""
    return np.asarray(np.min([sqnr_db_along(golden[name], outputs[name], 0) for name in sorted(golden)], axis=0))


@dataclass(frozen=True, slots=True)
class _Tuned:
    """One file of a pair, calibrated."""

    graph: Graph
    calibration: Calibration
    samples: SampleSource


def same_culprits(graphs: Sequence[Graph], data: Dataset, names: Mapping[str, str | None], goal: str) -> str:
    """Return what both searches raised, in words of layers, at a bound that 8 bits miss.

    `names` gives the second graph's names of the first one's inputs.
    """
    given = (data.samples, _renamed(data.samples, names))
    learnt = (data.calibration, _renamed(data.calibration, names))
    sides = [_side(graph, *both) for graph, *both in zip(graphs, learnt, given, strict=True)]
    bound = CloseToFloat(_all_low_db(sides[0]) + _BETTER_DB)
    raised = [_tune(side, bound, goal) for side in sides]
    if raised[0] == raised[1]:
        return f"{bound.least_db:.1f} dB: the same {len(raised[0])}: {', '.join(sorted(raised[0]))}"
    both, own, other = raised[0] & raised[1], raised[0] - raised[1], raised[1] - raised[0]
    return f"{bound.least_db:.1f} dB: both {sorted(both)}, first only {sorted(own)}, second only {sorted(other)}"


def _side(graph: Graph, learnt: Sequence[Sample], samples: Sequence[Sample]) -> _Tuned:
    specs = specs_of(graph)
    return _Tuned(graph, dovetail.calibrate(graph, open_samples(learnt, specs)), open_samples(samples, specs))


def _all_low_db(side: _Tuned) -> float:
    """Return what 8 bits everywhere leave nine samples in ten."""
    plan = make_plan(side.graph, Recipe(_LOW), {_LOW.target: find_target(_LOW.target)})
    samples = SampleSet(side.graph, side.samples)
    data = EvaluationData(side.graph, samples, CloseToFloat(0.0), "")
    rewriter = Rewriter(data, side.calibration.ranges, _LOW.target)
    every = range(samples.count)
    return float(np.quantile(worst_db(rewriter.outputs(plan, every), rewriter.golden(every)), 0.1))


def _renamed(samples: Sequence[Sample], names: Mapping[str, str | None]) -> list[Sample]:
    """Return samples under the other file's names of inputs; what it does not take is left out."""
    return [
        replace(sample, inputs={other: sample.inputs[name] for name, other in names.items() if other is not None})
        for sample in samples
    ]


def _tune(side: _Tuned, metric: TaskMetric, goal: str) -> frozenset[str]:
    graph = side.graph
    request = TuneRequest(
        graph=graph,
        calibration=side.calibration,
        samples=side.samples,
        metric=metric,
        goal=dovetail.parse_goal(goal),
        low=_LOW,
        ladder=(parse_placement("vsi:a311d@i16"),),
        costs=CostOptions(most_tests=0),
        options=TuneOptions(max_plans=60),
    )
    found = dovetail.tune(request).culprits
    places = _places(graph)
    return frozenset(min((places[name] for name in culprit.nodes), key=len) for culprit in found)


def _places(graph: Graph) -> dict[str, str]:
    """Return where every node is, counted in nodes with weights: what else is between them differs by format."""
    places: dict[str, str] = {}
    layer = 0
    for node in graph.nodes:
        heavy = node.op in ("Conv", "ConvTranspose", "Gemm", "MatMul")
        layer += heavy
        places[node.name] = f"layer {layer}" if heavy else f"{node.op} after layer {layer}"
    return places
