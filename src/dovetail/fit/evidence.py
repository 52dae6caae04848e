"""How many samples a fit's answer would need to be believed."""

from __future__ import annotations

import math

from dovetail.compare import TaskMetric
from dovetail.compare.decisions import FEWEST_PICTURES, TOP_METRICS, Decisions, pictures_needed
from dovetail.data.split import SplitOptions, Splits
from dovetail.errors import DataError, SearchError
from dovetail.search import Goal
from dovetail.search.bounds import upper_bound

_CONFIDENCE = 0.95


def refuse_few(count: int, goal: Goal, split: SplitOptions) -> None:
    """Raise DataError for fewer samples than anything is accepted on, with the number that would do."""
    if count >= FEWEST_PICTURES:
        return
    needed = _needed(goal)
    whole = "" if needed is None else f"; to show the goal {_enough(needed, split)}"
    raise DataError(
        f"{count} samples: nothing is accepted on fewer than {FEWEST_PICTURES}{whole}.",
        hint="Give more samples, or say that it shall be done anyway.",
        option="anyway",
    )


def refuse_any(goal: Goal, float_score: float, *, higher_is_better: bool) -> None:
    """Raise SearchError where the goal allows to lose all that the float model scores."""
    allowance = goal.allowance(float_score)
    if not higher_is_better or not 0 < float_score <= allowance:
        return
    percent = f"{goal.max_drop:g}%"
    raise SearchError(
        f"a loss of {allowance:.4g} is allowed, and float scores {float_score:.4g}: any plan would do.",
        hint="Allow less." if goal.relative else f"Was {percent} meant? That is a share of the float score.",
        option="max_drop",
    )


def holdout_note(splits: Splits, goal: Goal, metric: TaskMetric, split: SplitOptions) -> str:
    """Return a note where the hold-out is too small to show the goal; empty where it suffices or nobody knows.

    Known it is for metrics that score each sample within 0 and 1.
    """
    bounded = isinstance(metric, Decisions) or metric.name in TOP_METRICS
    needed = _needed(goal) if bounded else None
    if needed is None or len(splits.holdout) >= needed:
        return ""
    return (
        f"{len(splits.holdout)} samples on the hold-out cannot show the goal with {_CONFIDENCE:.0%} confidence; "
        f"{_enough(needed, split)}, if they lose nothing"
    )


def _needed(goal: Goal) -> int | None:
    """Return how many samples show the goal where each scores within 0 and 1, None where no number does."""
    return pictures_needed(lambda losses: upper_bound(losses, 1.0, _CONFIDENCE), goal.max_drop)


def _enough(needed: int, split: SplitOptions) -> str:
    return f"{needed} on the hold-out, {math.ceil(needed / split.holdout)} in all, would do"
