"""The trade-off between the score and the latency of plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.search.trial import Status, Trial


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A plan that no other beats in both score and latency; `knee` marks where more latency stops paying."""

    raised: tuple[str, ...]
    latency_ns: float
    score: float
    meets_target: bool
    chosen: bool = False
    knee: bool = False


def pareto_front(trials: Iterable[Trial], latencies_ns: Mapping[str, float], chosen: str) -> tuple[FrontPoint, ...]:
    """Return the plans that none beats in both latency and score, fastest first.

    Only plans with a latency that were evaluated on all samples count; the chosen one is always in the list.
    """
    complete = [
        trial
        for trial in trials
        if trial.complete and trial.status is not Status.CANNOT_TEST and trial.plan_digest in latencies_ns
    ]
    ranked = sorted(
        complete,
        key=lambda trial: (latencies_ns[trial.plan_digest], -trial.score, trial.plan_digest != chosen),
    )
    points: list[FrontPoint] = []
    best = float("-inf")
    for trial in ranked:
        mine = trial.plan_digest == chosen
        if trial.score > best or mine:
            best = max(best, trial.score)
            latency_ns = latencies_ns[trial.plan_digest]
            points.append(FrontPoint(trial.raised, latency_ns, trial.score, trial.status is Status.PASS, mine))
    return _with_knee(points)


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
