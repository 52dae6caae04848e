"""Heal before raising: which repairs make everything low better, by trial, and what each is worth.

Nothing is believed: variants are scored with everything low, the best is kept if it beats the graph as shipped, and
every repair whose absence does not lower the score goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.ranges import Range
from dovetail.repair import (
    PRICED,
    REPAIRS,
    Cause,
    HealedModel,
    TightenRanges,
    claims,
    repair,
    rounded_activations,
    rounded_weights,
)
from dovetail.search.context import Playback, SearchContext, open_search
from dovetail.search.log import open_log
from dovetail.search.request import TuneListener, TuneRequest
from dovetail.search.result import Healing, RepairTrial
from dovetail.search.variants import VariantFigures, VariantJudge

_TIGHTEN = TightenRanges().kind


@dataclass(frozen=True, slots=True)
class HealingOutcome:
    """The graph that the search goes on with, and what was tried."""

    repaired: HealedModel
    healing: Healing
    low: str
    needed: Mapping[str, Range]
    """What is needed of the ranges of outputs where the rest is cut off."""


def healed_request(
    request: TuneRequest, repaired: HealedModel, needed: Mapping[str, Range] | None = None
) -> TuneRequest:
    """Return a question about a repaired graph, with the graph of the request for the reference."""
    if not repaired.records:
        return request
    return replace(
        request,
        graph=repaired.graph,
        calibration=repaired.calibration,
        source=request.graph,
        repairs=repaired.records,
        needed=needed or {},
    )


def heal_request(request: TuneRequest, listener: TuneListener) -> HealingOutcome:
    """Return what repairs do for everything low, and the best variant, without a search."""
    with open_log(None) as log, open_search(request, listener, log) as context:
        return Healer(context, None).heal()


class Healer:
    """Try repairs with everything low, on the search split."""

    def __init__(self, context: SearchContext, playback: Playback | None) -> None:
        request = context.request
        self._context = context
        self._judge = VariantJudge(context, playback)
        self._start = HealedModel(request.graph, request.calibration)
        self._per_channel = request.low.precision.weight.per_channel
        self._figures: dict[tuple[str, ...], VariantFigures | None] = {}
        self._variants: dict[tuple[str, ...], HealedModel] = {(): self._start}
        self._refused: list[str] = []
        self._needed: Mapping[str, Range] = {}

    def heal(self) -> HealingOutcome:
        """Return the best variant; the graph as shipped where none is better."""
        allowed = [kind for kind in self._context.request.options.repairs if kind in REPAIRS.keys() - PRICED]
        request = self._context.request
        precision = request.low.precision
        graph, ranges = self._start.graph, self._start.calibration.ranges
        weights = self._judge.float_score("weights alone", rounded_weights(graph, precision))
        activations = self._judge.float_score("activations alone", rounded_activations(graph, ranges, precision))
        if _TIGHTEN in allowed and self._promising([_TIGHTEN], weights, activations):
            self._needed = self._judge.needed()
        best: tuple[str, ...] = ()
        honest = [kind for kind in self._promising(allowed, weights, activations) if self._variant((kind,)) is not None]
        for kinds in _variants(honest):
            best = kinds if self._is_better(kinds, best) else best
            self._forget_all_but(best)
        for kind in reversed(best):
            rest = tuple(item for item in best if item != kind)
            best = best if self._is_better(best, rest) else rest
            self._forget_all_but(best)
        # Those that were measured before were let go of.
        repaired = self._variant(best) or self._start
        trials = tuple(self._trial(record, best) for record in repaired.records)
        healing = Healing(self._score(()), self._score(best), trials, tuple(self._refused), weights, activations)
        needed = self._needed if _TIGHTEN in repaired.kinds else {}
        return HealingOutcome(repaired, healing, str(self._context.request.low), needed)

    def _promising(self, allowed: Sequence[str], weights: float, activations: float) -> list[str]:
        """Return the kinds that can help: what heals weights does nothing where activations alone do all the harm."""
        least = self._context.policy.repair.share * (self._context.search.float_score - self._score(()))
        harm = {Cause.WEIGHTS: weights, Cause.ACTIVATIONS: activations}
        lost = {cause: self._context.search.float_score - score for cause, score in harm.items()}
        return [kind for kind in allowed if any(not lost[cause] < least for cause in REPAIRS[kind].heals)]

    def _is_better(self, kinds: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Tell whether a variant is better than another: by scores beyond chance, else by the noise of the outputs.

        Scores of few samples tell alike variants apart by chance only; noise is a mean over many values.
        """
        ours, theirs = self._measured(kinds), self._measured(other)
        if ours is None or theirs is None:
            return ours is not None
        gain = ours.gain_over(theirs, self._context.policy.repair.errors)
        return gain > 0 if gain else ours.noise < theirs.noise

    def _trial(self, record: RepairRecord, kinds: tuple[str, ...]) -> RepairTrial:
        without = self._score(tuple(kind for kind in kinds if kind != record.kind))
        return trial_of(record, self._score(kinds), without)

    def _score(self, kinds: tuple[str, ...]) -> float:
        measured = self._measured(kinds)
        return float("nan") if measured is None else measured.score

    def _measured(self, kinds: tuple[str, ...]) -> VariantFigures | None:
        """Return what everything low gives; None for what cannot be tested."""
        if kinds not in self._figures:
            variant = self._variant(kinds)
            self._figures[kinds] = None if variant is None else self._judge.figures(variant, self._needed)
        return self._figures[kinds]

    def _forget_all_but(self, best: tuple[str, ...]) -> None:
        """Let go of other variants: each has all weights of the model. One that is wanted again is made again."""
        self._variants = {kinds: variant for kinds, variant in self._variants.items() if kinds in ((), best)}

    def _variant(self, kinds: tuple[str, ...]) -> HealedModel | None:
        """Return the graph with repairs of these kinds; None where a claim does not hold."""
        if kinds not in self._variants:
            variant = repair(self._start, kinds, self._per_channel, needed=self._needed)
            refusal = self._judge.refusal(variant)
            if refusal:
                self._refused.append(f"{', '.join(kinds)}: {refusal}")
                return None
            self._variants[kinds] = variant
        return self._variants[kinds]


def trial_of(record: RepairRecord, score: float, without: float) -> RepairTrial:
    """Return the trial of a repair, by what everything low scores with it and without."""
    return RepairTrial(record.kind, claims([record])[0].value, len(record.channels), score, without)


def _variants(allowed: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what is tried: all repairs with one of the equalisations or none; alternatives exclude each other."""
    alike = [kind for kind in allowed if kind.startswith("equalise")]
    rest = [kind for kind in allowed if kind not in alike]
    variants = [tuple(kind for kind in REPAIRS if kind in (*rest, chosen)) for chosen in (*alike, "")]
    return [variant for variant in dict.fromkeys(variants) if variant]
