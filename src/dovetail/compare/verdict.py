"""Why an output or a task fails, in words that name the place."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dovetail.compare.record import TaskRow, TensorRow
from dovetail.compare.slices import SliceScore

_SHOWN_RUNS = 8


def slice_reasons(row: TensorRow, slices: Sequence[SliceScore], min_sqnr_db: float) -> list[str]:
    """Name the failing slices, runs of neighbours together, one reason for each axis."""
    reasons = []
    if row.non_finite:
        reasons.append(f"output {row.name!r}: {row.non_finite} values are NaN or infinite.")
    failing = [score for score in slices if score.sqnr_db < min_sqnr_db]
    for _, group in itertools.groupby(failing, key=lambda score: (score.axis, bool(score.name))):
        scores = list(group)
        worst = min(scores, key=lambda score: score.sqnr_db)
        reasons.append(
            f"output {row.name!r}: {_places(scores, len(row.shape))} below {min_sqnr_db:g} dB, "
            f"the worst {worst.sqnr_db:.1f} dB at {worst.describe()} (cosine of the whole {row.cosine:.6f})."
        )
    return reasons


def _places(scores: Sequence[SliceScore], rank: int) -> str:
    first = scores[0]
    if first.name:
        return "heads " + ", ".join(repr(score.name) for score in scores)
    if first.axis is None:
        return "the whole tensor"
    runs: list[list[int]] = []
    for score in scores:
        if runs and runs[-1][1] == score.start - 1:
            runs[-1][1] = score.start
        else:
            runs.append([score.start, score.start])
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:_SHOWN_RUNS])
    more = f" and {len(runs) - _SHOWN_RUNS} more runs" if len(runs) > _SHOWN_RUNS else ""
    word = "columns" if first.axis == rank - 1 else "slices"
    return f"{word} {shown}{more} of axis {first.axis}"


def task_reasons(task: TaskRow, max_drop: float | None, minimum: float | None) -> list[str]:
    """Say where a metric lost more than `max_drop` against golden, or misses `minimum`."""
    sign = 1.0 if task.higher_is_better else -1.0
    drop = sign * (task.golden - task.measured)
    reasons = []
    if max_drop is not None and not drop <= max_drop + 1e-12:
        reasons.append(
            f"metric {task.name!r}: {task.measured:.4g} is {drop:.4g} worse than golden {task.golden:.4g}, "
            f"more than {max_drop:g}."
        )
    if minimum is not None and not sign * task.measured >= sign * minimum:
        reasons.append(f"metric {task.name!r}: {task.measured:.4g} misses the target {minimum:g}.")
    return reasons


def why_pass(rows: Sequence[TensorRow], judged: Sequence[str], tasks: Sequence[TaskRow], min_sqnr_db: float) -> str:
    """Say which slice and which scores a PASS rests on."""
    worst = min((row for row in rows if row.name in judged), key=lambda row: row.worst.sqnr_db)
    done = "".join(f"; metric {task.name!r} {task.measured:.4g} (golden {task.golden:.4g})" for task in tasks)
    place = f"the worst slice, {worst.worst.describe()} of output {worst.name!r}"
    return f"{place}, has {worst.worst.sqnr_db:.1f} dB, at least {min_sqnr_db:g} dB{done}."
