"""Do the same places break in 8 bits in two files of one network?

Every unit is quantised alone, and the noise that it leaves in the outputs measured.
Units are named by their place among the layers with weights, since formats name nodes differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import dovetail
from dovetail.backend.protocols import Fidelity
from dovetail.compare.task import TaskMetric
from dovetail.data import Sample, SampleSource, open_samples, specs_of, split_samples
from dovetail.ir import Graph
from dovetail.plan import Override, parse_placement
from dovetail.quantize import Calibration
from dovetail.search import CostOptions, TuneOptions, TuneRequest, parse_goal
from dovetail.search.evaluator import EvaluationData, simulates_whole, simulator_of
from dovetail.search.fanout.task import Executor
from dovetail.search.noise import measure_noise
from dovetail.search.samples import SampleSet
from dovetail.search.space import FLOAT, make_space
from dovetail.search.strategy import LocateBudget, locate
from zoo.case import Dataset

_LOW, _HIGH = parse_placement("vsi:a311d@u8"), parse_placement("vsi:a311d@i16")
_PROBES, _MOST_RUNS = 8, 600
_LISTED = 5
_HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_Weight = tuple[int, float]
"""Number of elements, and the sum of their sizes."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One file of a pair, calibrated."""

    graph: Graph
    places: Mapping[str, str]
    calibration: Calibration
    samples: SampleSource


def compare_culprits(
    graphs: Sequence[Graph], data: Dataset, names: Mapping[str, str | None], goal: str, metric: TaskMetric | None
) -> str:
    """Return whether the same units are the noisiest in two graphs, and with a goal whether tuning raises the same.

    `names` gives the second graph's names of the first one's inputs.
    """
    given = (data.samples, _renamed(data.samples, names))
    learnt = (data.calibration, _renamed(data.calibration, names))
    places = [_places(graph, graphs[0]) for graph in graphs]
    sides = [_side(*each) for each in zip(graphs, places, learnt, given, strict=True)]
    noise = [_noise(side, metric or data.metric) for side in sides]
    ranked = [[name for name, _ in Counter(shares).most_common(_LISTED)] for shares in noise]
    apart = max(abs(noise[0][name] - noise[1].get(name, 0.0)) / noise[0][name] for name in ranked[0])
    if set(ranked[0]) == set(ranked[1]):
        found = f"the same: {', '.join(ranked[0])}; noise within {apart:.1%}"
    else:
        found = f"first {', '.join(ranked[0])}; second {', '.join(ranked[1])}; noise within {apart:.1%}"
    return f"{found}; {_same_raised(sides, metric or data.metric, goal)}" if goal else found


def _side(graph: Graph, places: Mapping[str, str], learnt: Sequence[Sample], samples: Sequence[Sample]) -> _Side:
    specs = specs_of(graph)
    return _Side(graph, places, dovetail.calibrate(graph, open_samples(learnt, specs)), open_samples(samples, specs))


def _noise(side: _Side, metric: TaskMetric) -> dict[str, float]:
    """Return for every unit the noise at the outputs that its 8 bits alone make, the rest in float."""
    samples = SampleSet(side.graph, side.samples)
    target = _LOW.target
    how = Executor(target, simulates_whole(side.graph, target), Fidelity.FAST, {target: simulator_of(target).name})
    evaluator = how.evaluator(EvaluationData(side.graph, samples, metric, ""), side.calibration.ranges)
    space = make_space(side.graph, _LOW, (_HIGH,))
    probes = range(min(samples.count, _PROBES))

    def measure(units: Sequence[str]) -> float:
        kept = {name: Override(FLOAT, "float") for name in space.units if name not in units}
        return measure_noise(evaluator, space.plan(kept), probes).score

    noise = locate(tuple(space.units), measure, LocateBudget(_MOST_RUNS, _MOST_RUNS // 3))
    return {_place(space.units[name].nodes, side.places): share for name, share in noise.items()}


def _same_raised(sides: Sequence[_Side], metric: TaskMetric, goal: str) -> str:
    first, second = (_tune(side, metric, goal) for side in sides)
    if first == second:
        return f"tuned: the same {len(first)} {', '.join(sorted(first))}".rstrip()
    return f"tuned: both {sorted(first & second)}, first {sorted(first - second)}, second {sorted(second - first)}"


def _renamed(samples: Sequence[Sample], names: Mapping[str, str | None]) -> list[Sample]:
    """Return samples under the other file's names of inputs; what it does not take is left out."""
    return [
        replace(sample, inputs={other: sample.inputs[name] for name, other in names.items() if other is not None})
        for sample in samples
    ]


def _tune(side: _Side, metric: TaskMetric, goal: str) -> frozenset[str]:
    request = TuneRequest(
        graph=side.graph,
        calibration=side.calibration,
        samples=side.samples,
        splits=split_samples(side.samples),
        metric=metric,
        goal=parse_goal(goal),
        low=_LOW,
        ladder=(_HIGH,),
        costs=CostOptions(most_tests=0),
        options=TuneOptions(max_plans=60),
    )
    return frozenset(_place(culprit.nodes, side.places) for culprit in dovetail.tune(request).culprits)


def _place(nodes: Sequence[str], places: Mapping[str, str]) -> str:
    return min((places[name] for name in nodes), key=len)


def _layers(graph: Graph) -> dict[str, _Weight]:
    """Return the nodes with weights in order, with what tells their weights from others in whatever layout."""
    found: dict[str, _Weight] = {}
    for node in graph.nodes:
        weight = graph.constants.get(node.inputs[1]) if node.op in _HEAVY else None
        if node.op in _HEAVY:
            found[node.name] = (
                (0, 0.0) if weight is None else (weight.size, float(np.abs(weight).sum(dtype=np.float64)))
            )
    return found


def _places(graph: Graph, model: Graph) -> dict[str, str]:
    """Return where every node is, counted in nodes with weights: what else is between them differs by format.

    A layer has the number of the one with its weights in `model`: branches may stand in any order.
    """
    wanted = list(_layers(model).values())
    numbers: dict[str, int] = {}
    for own, (name, (size, total)) in enumerate(_layers(graph).items(), 1):
        alike = [
            number
            for number, (other, theirs) in enumerate(wanted, 1)
            if other == size and abs(theirs - total) <= 1e-3 * total and number not in numbers.values()
        ]
        numbers[name] = alike[0] if alike else own
    places: dict[str, str] = {}
    behind: dict[str, int] = {}
    for node in graph.nodes:
        layer = numbers.get(node.name) or max((behind.get(name, 0) for name in node.inputs), default=0)
        behind.update(dict.fromkeys(node.outputs, layer))
        places[node.name] = f"layer {layer}" if node.name in numbers else f"{node.op} after layer {layer}"
    return places
