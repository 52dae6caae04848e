"""How many samples a fit's answer would need to be believed."""

from __future__ import annotations

import math

from dovetail.compare import TaskMetric
from dovetail.compare.decisions import FEWEST_PICTURES, TOP_METRICS, Decisions, pictures_needed
from dovetail.data.split import Splits
from dovetail.errors import DataError
from dovetail.search import Goal
from dovetail.search.bounds import upper_bound

_CONFIDENCE = 0.95


def check_samples(splits: Splits, goal: Goal, metric: TaskMetric, *, anyway: bool) -> str | None:
    """Return a note where the hold-out is too small to show the goal, None where it suffices or nobody knows.

    Known it is for metrics that score each sample within 0 and 1.

    Raises DataError for fewer samples than anything is accepted on, unless `anyway`.
    """
    count, held = len(splits.search) + len(splits.holdout), len(splits.holdout)
    bounded = isinstance(metric, Decisions) or metric.name in TOP_METRICS
    needed = pictures_needed(lambda losses: upper_bound(losses, 1.0, _CONFIDENCE), goal.max_drop) if bounded else None
    whole = "" if needed is None else f"{needed} on the hold-out, {math.ceil(needed * count / held)} in all, would do"
    if count < FEWEST_PICTURES and not anyway:
        raise DataError(
            f"{count} samples: nothing is accepted on fewer than {FEWEST_PICTURES}"
            f"{f'; to show the goal {whole}' if whole else ''}.",
            hint="Give more samples, or say that it shall be done anyway.",
            option="anyway",
        )
    if needed is None or held >= needed:
        return None
    return (
        f"{held} samples on the hold-out cannot show the goal with {_CONFIDENCE:.0%} confidence; {whole}, "
        "if they lose nothing"
    )
