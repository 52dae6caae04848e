"""Repaired variants of a graph: what everything low gives on each, and whether its float outputs stay."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.quantize.calibrate import load_float
from dovetail.repair import Exactness, HealedModel, claims, float_error
from dovetail.search.context import Playback, SearchContext, cores, fast_executor
from dovetail.search.evaluator import EvaluationData, Scorer, run_batches
from dovetail.search.fanout.task import Measure, Query
from dovetail.search.journal import Journal
from dovetail.search.noise import measure_mean_noise
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.samples import SampleSet
from dovetail.search.space import make_space
from dovetail.search.trial import Scores


@dataclass(frozen=True, slots=True)
class VariantFigures:
    """What everything low gives: its score, that of every sample, and the noise of its outputs."""

    score: float
    per_sample: AnyArray | None
    noise: float

    def gain_over(self, other: VariantFigures, errors: float) -> float:
        """Return by how much the score is better; 0 where it is within some standard errors, and chance may be all."""
        if self.per_sample is None or other.per_sample is None:
            return self.score - other.score
        gains = self.per_sample - other.per_sample
        mean, error = float(gains.mean()), float(gains.std()) / math.sqrt(len(gains))
        return mean if abs(mean) > errors * error else 0.0


class VariantJudge:
    """Judge variants of the graph of a context on its search split."""

    def __init__(self, context: SearchContext, playback: Playback | None) -> None:
        request = context.request
        self._context = context
        self._playback = playback
        self._shipped = request.source or request.graph
        self._samples = SampleSet(request.graph, request.samples)

    def figures(self, variant: HealedModel) -> VariantFigures | None:
        """Return what everything low gives; None for what cannot be tested."""
        request, context = self._context.request, self._context
        context.listener.stage(f"healing: {', '.join(variant.kinds) or 'as shipped'}")
        space, evaluator = context.space, context.fast.evaluator
        known = variant.graph.digest == request.graph.digest and variant.records == request.repairs
        if not known:
            space = make_space(variant.graph, request.low, request.ladder, request.wishes, variant.records)
            executor = fast_executor(variant.graph, request.low.target, space.targets)
            data = self._data(variant.graph, self._shipped if variant.records else None)
            evaluator = replace(executor, threads=cores()).evaluator(data, variant.calibration.ranges)
        with self._journal(evaluator.identity) as journal:
            recorded = RecordedEvaluator(evaluator, journal, "healing", count=context.fast.count)
            # What the context itself has as low was evaluated by its search.
            scores = (
                context.search.scores(space.base) if known else recorded.evaluate(space.base, context.search.indices)
            )
            few = context.search.indices[: context.policy.repair.samples]
            query = Query(space.base, few, Measure.NOISE)
            noise = recorded.once(query, lambda: measure_mean_noise(evaluator, space.base, few))
        if scores.failure or noise.failure:
            return None
        return VariantFigures(scores.score, scores.per_sample, noise.score)

    def float_score(self, name: str, graph: Graph) -> float:
        """Return the score of a graph in float; NaN for what cannot be tested."""
        context = self._context
        context.listener.stage(f"healing: {name}")
        data, scorer = self._data(graph), Scorer(self._data(self._shipped))

        def measure() -> Scores:
            with closing(load_float(graph)) as model:
                outputs = run_batches(model, data, context.search.indices)
            return scorer.scores(outputs, context.search.indices)

        with self._journal(f"{name}\n{graph.digest}\n{context.fast.evaluator.identity}") as journal:
            recorded = RecordedEvaluator(context.fast.evaluator, journal, name, count=context.fast.count)
            scores = recorded.once(Query(context.space.base, context.search.indices), measure)
        return float("nan") if scores.failure else scores.score

    def refusal(self, variant: HealedModel) -> str:
        """Return in words how far float outputs move where they move by more than may be, else an empty text."""
        if self._playback is not None or all(item is Exactness.QUANTISED for item in claims(variant.records)):
            return ""
        policy = self._context.policy.repair
        first = self._context.search.indices[: policy.samples]
        error = float_error(self._shipped, variant.graph, (item.inputs for item in self._samples.samples(first)))
        return f"float outputs move by {error:.2g} of their largest value" if error > policy.float_error else ""

    @contextmanager
    def _journal(self, identity: str) -> Iterator[Journal]:
        """Open the journal of what an identity gives, closed to new evaluations in a replay."""
        key = hashlib.sha256(f"healing\n{identity}".encode()).hexdigest()
        journal = Journal(self._context.request.options.journal, key, self._context.log)
        try:
            if self._playback is not None:
                journal.close_to_new(self._playback.evaluations)
            yield journal
        finally:
            journal.close()

    def _data(self, graph: Graph, source: Graph | None = None) -> EvaluationData:
        request = self._context.request
        identity = request.metric_identity or request.metric.name
        context = self._context
        evaluation, outputs = context.policy.evaluation, context.memory.outputs
        return EvaluationData(graph, self._samples, request.metric, identity, evaluation, source, outputs)
