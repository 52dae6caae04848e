"""What the plan of a fit decides otherwise than float on the hold-out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.compare.decisions import DecisionLosses, DecisionScore, decision_losses
from dovetail.compare.task import Arrays
from dovetail.data.preprocess import Preprocess
from dovetail.fit.metric import ChosenMetric
from dovetail.plan import Plan
from dovetail.report import MOST_SHOWN, DecidedSample, DifferingSample, Picture, differing_pictures, differing_rows
from dovetail.search import TuneRequest
from dovetail.search.context import fast_executor
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
    asked: TuneRequest, plan: Plan, chosen: ChosenMetric, preprocess: Preprocess | None
) -> PlanDecisions:
    """Return what a plan decides otherwise than float on the hold-out; nothing where the outputs are not known.

    The plan is evaluated as the search did. `preprocess` is how pictures became inputs.
    """
    view, metric = chosen.view, chosen.decisions
    if view is None or metric is None:
        return PlanDecisions()
    samples = SampleSet(asked.graph, asked.samples.subset(asked.splits.holdout))
    data = EvaluationData(asked.graph, samples, metric, metric.name, asked.options.policy.evaluation)
    target, used = asked.low.target, tuple(plan.targets)
    evaluator = fast_executor(asked.graph, target, used).evaluator(data, asked.calibration.ranges)
    blocks = [range(start, min(start + _BLOCK, samples.count)) for start in range(0, samples.count, _BLOCK)]
    losses = decision_losses(metric, (_run(evaluator, plan, block) for block in blocks))
    shown = list(_most_different(samples, evaluator, plan, losses))
    return PlanDecisions(losses.figures, differing_rows(view, shown), differing_pictures(view, shown, preprocess))


def _most_different(
    samples: SampleSet, evaluator: Evaluator, plan: Plan, losses: DecisionLosses
) -> Iterator[DecidedSample]:
    for index in losses.most(MOST_SHOWN):
        (sample,) = samples.samples([index])
        golden, measured = _run(evaluator, plan, [index])
        yield DecidedSample(sample, golden, measured, float(losses.by_sample[index]))


def _run(evaluator: Evaluator, plan: Plan, indices: Sequence[int]) -> tuple[Arrays, Arrays]:
    return evaluator.golden(indices), evaluator.outputs(plan, indices)
