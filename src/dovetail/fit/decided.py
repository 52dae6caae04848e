"""What the plan of a fit decides otherwise than float on the hold-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.compare.decisions import DecisionScore, decision_losses
from dovetail.compare.task import Arrays
from dovetail.data.preprocess import Preprocess
from dovetail.fit.metric import ChosenMetric
from dovetail.report import MOST_SHOWN, DifferingSample, Picture, decided_samples, differing_pictures, differing_rows
from dovetail.search import TuneRequest, TuneResult
from dovetail.search.context import exact_executor, fast_executor
from dovetail.search.evaluator import EvaluationData
from dovetail.search.oracle import Split
from dovetail.search.outputs import KeptOutputs
from dovetail.search.samples import SampleSet


@dataclass(frozen=True, slots=True)
class PlanDecisions:
    """What a plan decides, beside float."""

    figures: tuple[DecisionScore, ...] = ()
    differing: tuple[DifferingSample, ...] = ()
    """The samples that lose most."""
    pictures: tuple[Picture, ...] = ()
    """Of these samples, where the model takes pictures."""


def plan_decisions(
    asked: TuneRequest,
    result: TuneResult,
    chosen: ChosenMetric,
    preprocess: Preprocess | None,
    outputs: KeptOutputs,
) -> PlanDecisions:
    """Return what the plan decides otherwise than float on the hold-out; nothing where the outputs are not known.

    It is evaluated as it was for its score there, exactly or not; `outputs` are those that the search kept.
    `preprocess` is how pictures became inputs.
    """
    view, metric = chosen.view, chosen.decisions
    if view is None or metric is None:
        return PlanDecisions()
    samples, splits = SampleSet(asked.graph, asked.samples), asked.splits
    evaluation = asked.options.policy.evaluation
    data = EvaluationData(asked.graph, samples, metric, metric.name, evaluation, asked.source, outputs)
    plan, target = result.plan, asked.low.target
    used, exact = tuple(plan.targets), result.holdout.tuned_exact is not None
    executor = exact_executor(target, used) if exact else fast_executor(asked.graph, target, used)
    evaluator = executor.evaluator(data, asked.calibration.ranges)
    # To run an exact plan takes seconds: asked for in the order of the search, its outputs are still here.
    order = Split.shuffled("holdout", splits.holdout, splits.seed).indices
    ascending = [int(row) for row in np.argsort(order)]
    sides = evaluator.golden(order), evaluator.outputs(plan, order)
    golden, measured = (_rows(side, ascending) for side in sides)
    losses = decision_losses(metric, [(golden, measured)])
    worst = losses.most(MOST_SHOWN)
    if not worst:
        return PlanDecisions(losses.figures)
    chosen_samples = list(samples.samples([splits.holdout[row] for row in worst]))
    shown = decided_samples(chosen_samples, _rows(golden, worst), _rows(measured, worst), losses.by_sample[worst])
    return PlanDecisions(losses.figures, differing_rows(view, shown), differing_pictures(view, shown, preprocess))


def _rows(outputs: Arrays, rows: Sequence[int]) -> Arrays:
    """Return some samples of outputs `[N, ...]`."""
    return {name: values[list(rows)] for name, values in outputs.items()}
