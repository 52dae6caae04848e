"""What was tried and is not beaten: raised units against score, and latency against score."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

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
    unbeaten = _unbeaten(priced, lambda trial: latencies_ns[trial.plan_digest], chosen)
    knee = _knee([(latencies_ns[trial.plan_digest], trial.score) for trial in unbeaten])
    return tuple(
        FrontPoint(
            trial.raised,
            latencies_ns[trial.plan_digest],
            trial.score,
            trial.passed,
            trial.plan_digest == chosen,
            number == knee,
        )
        for number, trial in enumerate(unbeaten)
    )


def knee_trial(trials: Iterable[Trial], latencies_ns: Mapping[str, float], most_ns: float) -> Trial | None:
    """Return the trial of the plan after which more latency stops paying, among those that take no longer than stated.

    Plans that were rejected early count with what they lose on the samples that were seen. None where there are less
    than three that none of the others beats, or all are on a line.
    """
    tested = [trial for trial in trials if trial.status is not Status.CANNOT_TEST]
    kept: list[tuple[float, float, Trial]] = []
    points = ((latencies_ns[item.plan_digest], item.score - item.float_score, item) for item in tested)
    for latency_ns, gain, trial in sorted(points, key=lambda point: (point[0], -point[1])):
        if latency_ns <= most_ns and (not kept or gain > kept[-1][1]):
            kept.append((latency_ns, gain, trial))
    knee = _knee([point[:2] for point in kept])
    return None if knee is None else kept[knee][2]


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


def _knee(points: Sequence[tuple[float, float]]) -> int | None:
    """Return which of some points of latency and score is furthest above the line between the first and the last."""
    if len(points) < 3:
        return None
    (first, least), (last, _) = points[0], points[-1]
    width, height = last - first, max(score for _, score in points) - least
    if width <= 0 or height <= 0:
        return None
    rises = [(score - least) / height - (latency - first) / width for latency, score in points]
    best = max(range(len(points)), key=rises.__getitem__)
    return best if rises[best] > 0 else None
