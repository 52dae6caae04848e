"""What the plan of a fit decides otherwise than float on the hold-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from dovetail.compare.decisions import DecisionScore, decision_losses
from dovetail.compare.task import Arrays
from dovetail.data.preprocess import Preprocess
from dovetail.fit.metric import ChosenMetric
from dovetail.plan import Plan
from dovetail.report import MOST_SHOWN, DifferingSample, Picture, decided_samples, differing_pictures, differing_rows
from dovetail.search import TuneRequest, TuneResult
from dovetail.search.context import exact_executor, fast_executor
from dovetail.search.evaluator import EvaluationData, Evaluator
from dovetail.search.samples import SampleSet

_BLOCK = 32
"""Samples whose outputs are in memory together."""


@dataclass(frozen=True, slots=True)
class PlanDecisions:
    """What a plan decides, beside float."""

    figures: tuple[DecisionScore, ...] = ()
    differing: tuple[DifferingSample, ...] = ()
    """The samples that lose most."""
    pictures: tuple[Picture, ...] = ()
    """Of these samples, where the model takes pictures."""


def plan_decisions(
    asked: TuneRequest, result: TuneResult, chosen: ChosenMetric, preprocess: Preprocess | None
) -> PlanDecisions:
    """Return what the plan decides otherwise than float on the hold-out; nothing where the outputs are not known.

    It is evaluated as it was for its score there, exactly or not. `preprocess` is how pictures became inputs.
    """
    view, metric = chosen.view, chosen.decisions
    if view is None or metric is None:
        return PlanDecisions()
    samples = SampleSet(asked.graph, asked.samples.subset(asked.splits.holdout))
    data = EvaluationData(asked.graph, samples, metric, metric.name, asked.options.policy.evaluation, asked.source)
    plan, target = result.plan, asked.low.target
    used, exact = tuple(plan.targets), result.holdout.tuned_exact is not None
    executor = exact_executor(target, used) if exact else fast_executor(asked.graph, target, used)
    evaluator = executor.evaluator(data, asked.calibration.ranges)
    blocks = [range(start, min(start + _BLOCK, samples.count)) for start in range(0, samples.count, _BLOCK)]
    first = _run(evaluator, plan, blocks[0])
    losses = decision_losses(metric, chain([first], (_run(evaluator, plan, block) for block in blocks[1:])))
    indices = losses.most(MOST_SHOWN)
    if not indices:
        return PlanDecisions(losses.figures)
    # To run an exact plan again takes seconds: most hold-outs are one block, whose outputs are still here.
    golden, measured = (_rows(side, indices) for side in first) if len(blocks) == 1 else _run(evaluator, plan, indices)
    shown = decided_samples(list(samples.samples(indices)), golden, measured, losses.by_sample[indices])
    return PlanDecisions(losses.figures, differing_rows(view, shown), differing_pictures(view, shown, preprocess))


def _rows(outputs: Arrays, indices: Sequence[int]) -> Arrays:
    """Return some samples of outputs `[N, ...]`."""
    return {name: values[list(indices)] for name, values in outputs.items()}


def _run(evaluator: Evaluator, plan: Plan, indices: Sequence[int]) -> tuple[Arrays, Arrays]:
    return evaluator.golden(indices), evaluator.outputs(plan, indices)
