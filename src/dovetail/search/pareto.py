"""The trade-off between raised units and score."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.search.result import ParetoPoint
from dovetail.search.trial import Status, Trial


def pareto_points(trials: Iterable[Trial], chosen: str) -> tuple[ParetoPoint, ...]:
    """Return the plans that no plan with as few raised units beats, fewest units first.

    Only plans that were evaluated on all samples count; the chosen one is always in the list.
    """
    complete = [trial for trial in trials if trial.complete and trial.status is not Status.CANNOT_TEST]
    ranked = sorted(complete, key=lambda trial: (len(trial.raised), -trial.score, trial.plan_digest != chosen))
    points: list[ParetoPoint] = []
    best = float("-inf")
    for trial in ranked:
        if trial.score > best or trial.plan_digest == chosen:
            best = max(best, trial.score)
            passed = trial.status is Status.PASS
            points.append(ParetoPoint(trial.raised, trial.score, passed, trial.plan_digest == chosen))
    return tuple(points)
