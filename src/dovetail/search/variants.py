"""Repaired variants of a graph: what everything low gives on each, and whether its float outputs stay."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from dovetail.errors import CostError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.plan.limits import Limits
from dovetail.plan.plan import Override, Plan
from dovetail.quantize.calibrate import load_float
from dovetail.quantize.ranges import Range
from dovetail.repair import Exactness, HealedModel, claims, float_error, relative_error
from dovetail.search.context import Playback, SearchContext, cores, fast_executor
from dovetail.search.evaluator import EvaluationData, Scorer, run_batches
from dovetail.search.fanout.task import Measure, Query
from dovetail.search.journal import Journal
from dovetail.search.needed import needed_ranges
from dovetail.search.noise import measure_mean_noise
from dovetail.search.proof import make_prover
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.samples import SampleSet, stack_outputs
from dovetail.search.space import Space, SpaceOptions, make_space
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


@dataclass(frozen=True, slots=True)
class PricedFigures:
    """What everything low gives on a graph with a repair that costs latency, and what it takes."""

    figures: VariantFigures
    latency_ns: float


class VariantJudge:
    """Judge variants of the graph of a context on its search split."""

    def __init__(self, context: SearchContext, playback: Playback | None) -> None:
        request = context.request
        self._context = context
        self._playback = playback
        self._shipped = request.source or request.graph
        self._samples = SampleSet(request.graph, request.samples)

    def figures(
        self, variant: HealedModel, needed: Mapping[str, Range] | None = None, *, raised: bool = False
    ) -> VariantFigures | None:
        """Return what everything low gives, or everything raised to its first rung; None for what cannot be tested.

        Noise is that within the ranges that are needed of outputs.
        """
        request, context = self._context.request, self._context
        context.listener.stage(f"healing: {', '.join(variant.kinds) or 'as shipped'}")
        space, evaluator = context.space, context.fast.evaluator
        known = variant.graph.digest == request.graph.digest and variant.records == request.repairs
        if not known:
            space = self._space(variant)
            executor = fast_executor(variant.graph, request.low.target, space.targets)
            data = self._data(variant.graph, self._shipped if variant.records else None)
            evaluator = replace(executor, threads=cores()).evaluator(data, variant.calibration.ranges)
        plan = _plan(space, raised)
        with self._journal(evaluator.identity) as journal:
            recorded = RecordedEvaluator(evaluator, journal, "healing", count=context.fast.count)
            # What the context itself has as low was evaluated by its search.
            scores = context.search.scores(plan) if known else recorded.evaluate(plan, context.search.indices)
            few = context.search.indices[: context.policy.repair.samples]
            query = Query(plan, few, Measure.NOISE)
            noise = recorded.once(query, lambda: measure_mean_noise(evaluator, plan, few, needed))
        if scores.failure or noise.failure:
            return None
        return VariantFigures(scores.score, scores.per_sample, noise.score)

    def latency_ns(self, variant: HealedModel, *, raised: bool = False) -> float | None:
        """Return what everything low takes, or raised, by figures that ship with Dovetail; None where there are none.

        A vendor's model is not asked: variants are compared with each other only.
        """
        request = self._context.request
        space = self._space(variant)
        costs = replace(request.costs, vendor_s=0.0)
        try:
            prover = make_prover(space, Limits(), costs, (), self._context.policy)
        except CostError:
            return None
        return prover.model.plan_cost(_plan(space, raised)).latency_ns

    def priced(
        self, variant: HealedModel, needed: Mapping[str, Range] | None = None, *, raised: bool = False
    ) -> PricedFigures | None:
        """Return what everything low, or raised, gives and takes; None for what cannot be tested or priced."""
        latency_ns = self.latency_ns(variant, raised=raised)
        figures = None if latency_ns is None else self.figures(variant, needed, raised=raised)
        return None if figures is None or latency_ns is None else PricedFigures(figures, latency_ns)

    def _space(self, variant: HealedModel) -> Space:
        request = self._context.request
        options = SpaceOptions(variant.records, request.demands)
        return make_space(variant.graph, request.low, request.ladder, request.wishes, options)

    def needed(self) -> dict[str, Range]:
        """Return what is needed of the ranges of outputs of which most is not."""
        context = self._context
        context.listener.stage("healing: what is needed of the outputs")
        with self._journal(f"needed\n{context.fast.evaluator.identity}") as journal:
            recorded = RecordedEvaluator(context.fast.evaluator, journal, "needed", count=context.fast.count)
            return needed_ranges(context, recorded, self._data(self._shipped))

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
        error = self._float_error(variant.graph, first)
        return f"float outputs move by {error:.2g} of their largest value" if error > policy.float_error else ""

    def _float_error(self, graph: Graph, indices: Sequence[int]) -> float:
        """Return how far float outputs of a graph move from those as shipped, which are kept from scoring."""
        expected = Scorer(self._data(self._shipped)).golden(indices)
        if any(len(values) != len(indices) for values in expected.values()):
            return float_error(self._shipped, graph, (item.inputs for item in self._samples.samples(indices)))
        worst = 0.0
        with closing(load_float(graph)) as model:
            for row, sample in enumerate(self._samples.samples(indices)):
                measured = stack_outputs(self._shipped, [model.run(sample.inputs)])
                errors = (relative_error(expected[name][row : row + 1], measured[name]) for name in measured)
                worst = max([worst, *errors])
        return worst

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


def _plan(space: Space, raised: bool) -> Plan:
    """Return the plan of a space with everything low, or with all that can be raised at its first rung."""
    places = {unit: Override(space.rung(unit, False), "everything raised") for unit in space.units}
    return space.plan(places) if raised else space.base
