"""Heal before raising: which repairs make everything low better, by trial, and what each is worth.

Nothing is believed: variants are scored with everything low, the best is kept if it beats the graph as shipped, and
every repair whose absence does not lower the score goes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.calibrate import load_float
from dovetail.repair import (
    REPAIRS,
    Cause,
    Exactness,
    HealedModel,
    claims,
    float_error,
    repair,
    rounded_activations,
    rounded_weights,
)
from dovetail.search.context import Playback, SearchContext, cores, fast_executor, open_search
from dovetail.search.evaluator import EvaluationData, Scorer, run_batches
from dovetail.search.fanout.task import Measure, Query
from dovetail.search.journal import Journal
from dovetail.search.log import open_log
from dovetail.search.noise import measure_mean_noise
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.request import TuneListener, TuneRequest
from dovetail.search.result import Healing, RepairTrial
from dovetail.search.samples import SampleSet
from dovetail.search.space import make_space
from dovetail.search.trial import Scores


@dataclass(frozen=True, slots=True)
class HealingOutcome:
    """The graph that the search goes on with, and what was tried."""

    repaired: HealedModel
    healing: Healing
    low: str


def healed_request(request: TuneRequest, repaired: HealedModel) -> TuneRequest:
    """Return a question about a repaired graph, with the graph of the request for the reference."""
    if not repaired.records:
        return request
    return replace(
        request,
        graph=repaired.graph,
        calibration=repaired.calibration,
        source=request.graph,
        repairs=repaired.records,
    )


def heal_request(request: TuneRequest, listener: TuneListener) -> HealingOutcome:
    """Return what repairs do for everything low, and the best variant, without a search."""
    with open_log(None) as log, open_search(request, listener, log) as context:
        return Healer(context, None).heal()


@dataclass(frozen=True, slots=True)
class _Figures:
    """What everything low gives: its score, that of every sample, and the noise of its outputs."""

    score: float
    per_sample: AnyArray | None
    noise: float


class Healer:
    """Try repairs with everything low, on the search split."""

    def __init__(self, context: SearchContext, playback: Playback | None) -> None:
        request = context.request
        self._context = context
        self._playback = playback
        self._start = HealedModel(request.graph, request.calibration)
        self._per_channel = request.low.precision.weight.per_channel
        self._samples = SampleSet(request.graph, request.samples)
        self._figures: dict[tuple[str, ...], _Figures | None] = {}
        self._variants: dict[tuple[str, ...], HealedModel] = {(): self._start}
        self._refused: list[str] = []

    def heal(self) -> HealingOutcome:
        """Return the best variant; the graph as shipped where none is better."""
        allowed = [kind for kind in self._context.request.options.repairs if kind in REPAIRS]
        request = self._context.request
        precision = request.low.precision
        graph, ranges = self._start.graph, self._start.calibration.ranges
        weights = self._alone("weights alone", rounded_weights(graph, precision))
        activations = self._alone("activations alone", rounded_activations(graph, ranges, precision))
        best: tuple[str, ...] = ()
        honest = [kind for kind in self._promising(allowed, weights, activations) if self._variant((kind,)) is not None]
        for kinds in _variants(honest):
            best = kinds if self._is_better(kinds, best) else best
        for kind in reversed(best):
            rest = tuple(item for item in best if item != kind)
            best = best if self._is_better(best, rest) else rest
        repaired = self._variants[best]
        trials = tuple(self._trial(record, best) for record in repaired.records)
        healing = Healing(self._score(()), self._score(best), trials, tuple(self._refused), weights, activations)
        return HealingOutcome(repaired, healing, str(self._context.request.low))

    def _promising(self, allowed: Sequence[str], weights: float, activations: float) -> list[str]:
        """Return the kinds that can help: what heals weights does nothing where activations alone do all the harm."""
        least = self._context.policy.repair.share * (self._context.search.float_score - self._score(()))
        harm = {Cause.WEIGHTS: weights, Cause.ACTIVATIONS: activations}
        lost = {cause: self._context.search.float_score - score for cause, score in harm.items()}
        return [kind for kind in allowed if any(not lost[cause] < least for cause in REPAIRS[kind].heals)]

    def _alone(self, name: str, graph: Graph) -> float:
        """Return the score of the float model with some of it rounded."""
        context = self._context
        context.listener.stage(f"healing: {name}")
        data = self._data(HealedModel(graph, self._start.calibration))
        scorer = Scorer(replace(data, graph=self._start.graph))

        def measure() -> Scores:
            with closing(load_float(graph)) as model:
                outputs = run_batches(model, data, context.search.indices)
            return scorer.scores(outputs, context.search.indices)

        with self._journal(f"{name}\n{graph.digest}\n{context.fast.evaluator.identity}") as journal:
            recorded = RecordedEvaluator(context.fast.evaluator, journal, name, tally=context.fast.tally)
            scores = recorded.once(Query(context.space.base, context.search.indices), measure)
        return float("nan") if scores.failure else scores.score

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

    def _data(self, variant: HealedModel) -> EvaluationData:
        request = self._context.request
        identity = request.metric_identity or request.metric.name
        source = self._start.graph if variant.records else None
        evaluation = self._context.policy.evaluation
        outputs = self._context.memory.outputs
        return EvaluationData(variant.graph, self._samples, request.metric, identity, evaluation, source, outputs)

    def _is_better(self, kinds: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Tell whether a variant is better than another: by scores beyond chance, else by the noise of the outputs.

        Scores of few samples tell alike variants apart by chance only; noise is a mean over many values.
        """
        ours, theirs = self._measured(kinds), self._measured(other)
        if ours is None or theirs is None:
            return ours is not None
        if ours.per_sample is None or theirs.per_sample is None:
            return (ours.score, -ours.noise) > (theirs.score, -theirs.noise)
        gains = ours.per_sample - theirs.per_sample
        error = float(gains.std()) / math.sqrt(len(gains))
        if abs(float(gains.mean())) > self._context.policy.repair.errors * error:
            return float(gains.mean()) > 0
        return ours.noise < theirs.noise

    def _trial(self, record: RepairRecord, kinds: tuple[str, ...]) -> RepairTrial:
        without = self._score(tuple(kind for kind in kinds if kind != record.kind))
        exactness = claims([record])[0].value
        return RepairTrial(record.kind, exactness, len(record.channels), self._score(kinds), without)

    def _score(self, kinds: tuple[str, ...]) -> float:
        measured = self._measured(kinds)
        return float("nan") if measured is None else measured.score

    def _measured(self, kinds: tuple[str, ...]) -> _Figures | None:
        """Return what everything low gives; None for what cannot be tested."""
        if kinds not in self._figures:
            variant = self._variant(kinds)
            self._figures[kinds] = None if variant is None else self._evaluated(variant)
        return self._figures[kinds]

    def _variant(self, kinds: tuple[str, ...]) -> HealedModel | None:
        """Return the graph with repairs of these kinds; None where a claim does not hold."""
        if kinds not in self._variants:
            variant = repair(self._start, kinds, self._per_channel)
            error = self._float_error(variant)
            if error > self._context.policy.repair.float_error:
                self._refused.append(f"{', '.join(kinds)}: float outputs move by {error:.2g} of their largest value")
                return None
            self._variants[kinds] = variant
        return self._variants[kinds]

    def _float_error(self, variant: HealedModel) -> float:
        if self._playback is not None or all(item is Exactness.QUANTISED for item in claims(variant.records)):
            return 0.0
        first = self._context.search.indices[: self._context.policy.repair.samples]
        return float_error(self._start.graph, variant.graph, (item.inputs for item in self._samples.samples(first)))

    def _evaluated(self, variant: HealedModel) -> _Figures | None:
        request, context = self._context.request, self._context
        context.listener.stage(f"healing: {', '.join(variant.kinds) or 'as shipped'}")
        space, evaluator = context.space, context.fast.evaluator
        if variant.records:
            space = make_space(variant.graph, request.low, request.ladder, request.wishes, variant.records)
            executor = fast_executor(variant.graph, request.low.target, space.targets)
            evaluator = replace(executor, threads=cores()).evaluator(self._data(variant), variant.calibration.ranges)
        with self._journal(evaluator.identity) as journal:
            recorded = RecordedEvaluator(evaluator, journal, "healing", tally=context.fast.tally)
            if variant.records:
                scores = recorded.evaluate(space.base, context.search.indices)
            else:
                # The search has evaluated it already: that is why there is something to heal.
                scores = context.search.scores(space.base)
            few = context.search.indices[: context.policy.repair.samples]
            query = Query(space.base, few, Measure.NOISE)
            noise = recorded.once(query, lambda: measure_mean_noise(evaluator, space.base, few))
        if scores.failure or noise.failure:
            return None
        return _Figures(scores.score, scores.per_sample, noise.score)


def _variants(allowed: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what is tried: all repairs with one of the equalisations or none; alternatives exclude each other."""
    alike = [kind for kind in allowed if kind.startswith("equalise")]
    rest = [kind for kind in allowed if kind not in alike]
    variants = [tuple(kind for kind in REPAIRS if kind in (*rest, chosen)) for chosen in (*alike, "")]
    return [variant for variant in dict.fromkeys(variants) if variant]
