"""What was tried and is not beaten: raised units against score, and latency against score."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.search.trial import Status, Trial


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A number of raised units and the best score for it."""

    raised: tuple[str, ...]
    score: float
    meets_target: bool
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A plan that no other beats in both score and latency; `knee` marks where more latency stops paying."""

    raised: tuple[str, ...]
    latency_ns: float
    score: float
    meets_target: bool
    chosen: bool = False
    knee: bool = False


def pareto_points(trials: Iterable[Trial], chosen: str) -> tuple[ParetoPoint, ...]:
    """Return the plans that no plan with as few raised units beats, fewest units first."""
    return tuple(
        ParetoPoint(trial.raised, trial.score, trial.passed, trial.plan_digest == chosen)
        for trial in _unbeaten(trials, lambda trial: len(trial.raised), chosen)
    )


def pareto_front(trials: Iterable[Trial], latencies_ns: Mapping[str, float], chosen: str) -> tuple[FrontPoint, ...]:
    """Return the plans that none beats in both latency and score, fastest first; only plans with a latency count."""
    priced = [trial for trial in trials if trial.plan_digest in latencies_ns]
    return _with_knee(
        [
            FrontPoint(
                trial.raised, latencies_ns[trial.plan_digest], trial.score, trial.passed, trial.plan_digest == chosen
            )
            for trial in _unbeaten(priced, lambda trial: latencies_ns[trial.plan_digest], chosen)
        ]
    )


def _unbeaten(trials: Iterable[Trial], cost: Callable[[Trial], float], chosen: str) -> list[Trial]:
    """Return the trials on all samples that none of at most their cost beats, cheapest first, and the chosen one."""
    complete = [trial for trial in trials if trial.complete and trial.status is not Status.CANNOT_TEST]
    kept: list[Trial] = []
    best = float("-inf")
    for trial in sorted(complete, key=lambda trial: (cost(trial), -trial.score, trial.plan_digest != chosen)):
        if trial.score > best or trial.plan_digest == chosen:
            best = max(best, trial.score)
            kept.append(trial)
    return kept


def _with_knee(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """Mark the point furthest above the line between the ends, with both axes scaled to 0..1."""
    if len(points) < 3:
        return tuple(points)
    first, last = points[0], points[-1]
    width, height = last.latency_ns - first.latency_ns, max(point.score for point in points) - first.score
    if width <= 0 or height <= 0:
        return tuple(points)

    def rise(point: FrontPoint) -> float:
        return (point.score - first.score) / height - (point.latency_ns - first.latency_ns) / width

    best = max(range(len(points)), key=lambda index: rise(points[index]))
    return tuple(replace(point, knee=index == best and rise(point) > 0) for index, point in enumerate(points))
