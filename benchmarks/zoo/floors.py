"""What no search can be faster than."""

from __future__ import annotations

import onnx

import dovetail
from dovetail.data import open_samples, specs_of
from dovetail.plan import parse_placement
from dovetail.search.evaluator import EvaluationData, Rewriter
from dovetail.search.pipeline import Pipeline
from dovetail.search.samples import SampleSet
from zoo.peers import ANSWERS, Clock, Found, Meter, items_of
from zoo.tasks import Task

_FLOAT = "cpu@fp32"


def run_floor(task: Task) -> Found:
    """Time what no search can do without: calibration, and one pass of the float model over either split."""
    searched, held = task.parts()
    meter, holdout = Meter(task, searched), Meter(task, held)
    clock = Clock()
    model = onnx.load(task.model)
    graph = dovetail.normalize(dovetail.load_model(task.model))
    dovetail.calibrate(graph, open_samples([item[None] for item in task.calibration], specs_of(graph)))
    scores = meter.score(model), holdout.score(model)
    wall_s, cpu_s = clock.wall_s(), clock.cpu_s()
    full = meter.full_equivalents + len(held) / len(searched)
    return Found("floor: float", 0, 0, None, 2, full, wall_s, cpu_s, *scores, True, "what no search can do without")


def run_check(task: Task) -> Found:
    """Time what it takes to check our last answer: no search, and no proof that nothing is cheaper."""
    plan = ANSWERS[task.name]
    searched, held = task.parts()
    clock = Clock()
    graph = dovetail.normalize(dovetail.load_model(task.model))
    specs = specs_of(graph)
    ranges = dovetail.calibrate(graph, open_samples([item[None] for item in task.calibration], specs)).ranges
    data = EvaluationData(graph, SampleSet(graph, open_samples(items_of(task), specs)), task.metric, task.name)
    fast, golden = Rewriter(data, ranges, plan.default.target), dovetail.Plan(graph.digest, parse_placement(_FLOAT))
    fast.evaluate(golden, searched)
    fast.evaluate(golden, held)
    scores = fast.evaluate(plan, searched).score, Pipeline(data, ranges).evaluate(plan, held).score
    wall_s, cpu_s, full = clock.wall_s(), clock.cpu_s(), 2 * (1 + len(held) / len(searched))
    note = "what it takes to check our plan when it is known: float and the plan on both splits"
    return Found("floor: check", len(graph.nodes), 0, None, 4, full, wall_s, cpu_s, *scores, True, note)
