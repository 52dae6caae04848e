"""What another tool's answer would cost on our target, and whether it holds there: the same cost model for all.

A unit is low where the tool's quantised model computes its working node from 8 bits: clamps and moves that the unit
fuses need no quantiser of their own. All else is float on the CPU. Operators that the target refuses are there for
every tool.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import dovetail
from dovetail.data import open_samples, specs_of
from dovetail.plan import Limits, Override, Plan, parse_placement
from dovetail.quantize import Calibration
from dovetail.search import CostOptions, parse_goal
from dovetail.search.evaluator import EvaluationData
from dovetail.search.pipeline import Pipeline
from dovetail.search.proof import make_prover
from dovetail.search.samples import SampleSet
from dovetail.search.space import FLOAT, make_space
from zoo.tasks import Task


@dataclass(frozen=True, slots=True)
class Priced:
    """Hold what a plan takes, its loss on the hold-out split in exact simulation, and the units that are not low.

    `holds` tells whether the loss is within the goal.
    """

    latency_ms: float
    loss: float
    holds: bool
    raised: tuple[str, ...]


class Pricer:
    """Turn the nodes that a tool quantises into a plan of ours, and price and test it."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._graph = dovetail.normalize(dovetail.load_model(task.model))
        self._space = make_space(self._graph, parse_placement(task.low), (FLOAT,))
        self._model = make_prover(self._space, Limits(), CostOptions(), ()).model
        self._calibration: Calibration | None = None

    def nodes_above(self, quantised: Collection[str]) -> frozenset[str]:
        """Return the nodes of the units that a tool leaves float, given the file's nodes that it quantises."""
        return frozenset(node for unit in self._units_above(quantised) for node in self._space.units[unit].nodes)

    def price(self, quantised: Collection[str]) -> Priced:
        """Return what the plan costs, and what it loses on samples that no tool has searched on."""
        raised = self._units_above(quantised)
        plan = self._space.plan({unit: Override(FLOAT, "left float by the tool") for unit in raised})
        float_score, score = self._scores(plan)
        allowed = parse_goal(self._task.goal).allowance(float_score)
        loss = float_score - score
        return Priced(self._model.plan_cost(plan).latency_ns / 1e6, loss, loss <= allowed + 1e-12, raised)

    def _units_above(self, quantised: Collection[str]) -> tuple[str, ...]:
        working = {name: self._graph.node(unit.nodes[0]) for name, unit in self._space.units.items()}
        return tuple(name for name, node in working.items() if not {node.name, *node.origin} & set(quantised))

    def _scores(self, plan: Plan) -> tuple[float, float]:
        task, specs = self._task, specs_of(self._graph)
        if self._calibration is None:
            self._calibration = dovetail.calibrate(
                self._graph, open_samples([item[None] for item in task.calibration], specs)
            )
        _, held = task.parts()
        items = [
            {task.input: task.inputs[index][None], **{key: value[index] for key, value in task.labels.items()}}
            for index in held
        ]
        data = EvaluationData(self._graph, SampleSet(self._graph, open_samples(items, specs)), task.metric, task.name)
        pipeline = Pipeline(data, self._calibration.ranges)
        every = range(len(held))
        return pipeline.evaluate(self._space.float_plan, every).score, pipeline.evaluate(plan, every).score
