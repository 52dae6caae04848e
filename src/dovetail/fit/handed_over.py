"""Score what the consumer of an exported file computes, beside what is predicted of the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from dovetail.compare.judgement import JudgedScore
from dovetail.data import SampleSource, first_samples
from dovetail.errors import DataError
from dovetail.fit.judged_run import DeployedModel, JudgedMetric, score_deployed
from dovetail.fit.listener import FitListener, SilentFit
from dovetail.fit.metric import ChosenMetric, choose_metric
from dovetail.formats.consumer import Consumer, ConsumerReading, ConsumerRequest
from dovetail.formats.numerics import ForetoldModel, numerics_of
from dovetail.ir import AnyArray, Graph
from dovetail.plan import Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize import Ranges, calibrate, quantize
from dovetail.search.samples import SampleSet, stack_outputs

_CALIBRATED = 20
"""Samples that a consumer calibrates on, as its users give it."""
_NOISE = "noise"


@dataclass(frozen=True, slots=True)
class HandedRequest:
    """Samples to score an exported file on, and what counts as right."""

    reference: Graph
    """The float graph as shipped, without repairs."""
    samples: SampleSource
    _: KW_ONLY
    ranges: Ranges | None = None
    """What the prediction quantises with, where the consumer does not find ranges by rules of its own; None calibrates
    on the consumer's samples."""
    metric: str | None = None
    """As for a fit; where nobody says it and outputs are not recognised, the metric of noise."""
    decisions: str | None = None


@dataclass(frozen=True, slots=True)
class HandedScore:
    """Scores of one plan: more is better."""

    metric: str
    samples: int
    float_score: float
    predicted: JudgedScore
    """Of the plan, in Dovetail's simulation."""
    given: float
    """Of what the consumer computes."""
    noise_db: float
    """Signal over noise of the consumer's outputs against float, of the worst output."""
    note: str = ""


def read_scored(
    consumer: Consumer, asked: ConsumerRequest, request: HandedRequest, listener: FitListener | None = None
) -> tuple[ConsumerReading, HandedScore]:
    """Return what a consumer makes of a file and what it scores; it calibrates on the first samples.

    Raises FormatError where it refuses the file, DataError where the samples do not fit.
    """
    progress, graph = listener or SilentFit(), asked.graph
    samples = SampleSet(graph, request.samples)
    indices = range(samples.count)
    progress.stage("running the consumer")
    run = [item.inputs for item in samples.samples(indices)]
    reading = consumer.read(replace(asked, samples=run[:_CALIBRATED], run=run))
    chosen, note = _metric(request)
    metric = JudgedMetric(request.reference, samples, chosen)
    float_score = metric.float_score()
    progress.stage("predicting", samples.count)
    if reading.computes_floats:
        predicted = JudgedScore(float_score)
    else:
        model = DeployedModel(_consumed(consumer, asked, request), samples, request.reference)
        predicted = score_deployed(model, metric, progress)
    outputs = stack_outputs(request.reference, reading.outputs)
    return reading, HandedScore(
        metric=chosen.metric.name,
        samples=samples.count,
        float_score=float_score,
        predicted=predicted,
        given=metric.score(outputs),
        noise_db=_noise_db(metric.golden(), outputs),
        note=note,
    )


def _consumed(consumer: Consumer, asked: ConsumerRequest, request: HandedRequest) -> QuantizedGraph:
    """Return what a consumer is expected to make of a plan."""
    graph, numerics = asked.graph, numerics_of(consumer)
    samples = first_samples(request.samples, _CALIBRATED)
    if isinstance(consumer, ForetoldModel):
        return consumer.expected(graph, asked.plan, samples)
    plan = asked.plan if numerics is None else numerics.placed(asked.plan)
    if numerics is not None and numerics.adjust is not None:
        return quantize(graph, plan, numerics.calibrate(graph, samples, plan=plan).ranges)
    return quantize(graph, plan, request.ranges or calibrate(graph, samples).ranges)


@dataclass(frozen=True, slots=True)
class MovedScore:
    """What the nearest plan that a format can say is predicted to score, beside the plan that was asked for."""

    metric: str
    samples: int
    float_score: float
    asked: JudgedScore
    nearest: JudgedScore
    note: str = ""


def score_moved(
    graph: Graph, asked: Plan, nearest: Plan, request: HandedRequest, listener: FitListener | None = None
) -> MovedScore:
    """Return what both plans score in simulation; raise DataError where the samples do not fit."""
    progress, samples = listener or SilentFit(), SampleSet(graph, request.samples)
    chosen, note = _metric(request)
    metric = JudgedMetric(request.reference, samples, chosen)
    ranges = request.ranges or calibrate(graph, first_samples(request.samples, _CALIBRATED)).ranges
    scores: list[JudgedScore] = []
    for title, plan in (("the plan", asked), ("the nearest plan", nearest)):
        progress.stage(f"scoring {title}", samples.count)
        model = DeployedModel(quantize(graph, plan, ranges), samples, request.reference)
        scores.append(score_deployed(model, metric, progress))
    return MovedScore(chosen.metric.name, samples.count, metric.float_score(), scores[0], scores[1], note)


def _metric(request: HandedRequest) -> tuple[ChosenMetric, str]:
    """Return the metric, and why it is that of noise where nobody says so; raise DataError where one is asked for."""
    try:
        return choose_metric(request.metric, request.decisions, request.reference, request.samples), ""
    except DataError as error:
        if request.metric is not None or request.decisions is not None:
            raise
        return choose_metric(_NOISE, None, request.reference, request.samples), error.message


def _noise_db(golden: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray]) -> float:
    """Return signal over noise of the worst output, in decibels."""
    worst = math.inf
    for name, right in golden.items():
        real = right.astype(np.float64)
        power, noise = float(np.square(real).sum()), float(np.square(real - outputs[name]).sum())
        worst = min(worst, 10 * math.log10(power / noise) if noise and power else math.inf)
    return worst
