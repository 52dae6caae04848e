"""Compare measured tensors with golden ones and judge the outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.compare.decisions.worst import Decisions
from dovetail.compare.record import CompareVerdict, Comparison, TaskRow, TensorRow
from dovetail.compare.slices import Head, SliceScore, judged_slices
from dovetail.compare.task import Arrays, Reference, TaskMetric
from dovetail.compare.tensor_metrics import (
    cosine,
    lsb_histogram,
    max_abs_error,
    mean_abs_error,
    pair,
    sqnr_db,
)
from dovetail.compare.verdict import slice_reasons, task_reasons, why_pass
from dovetail.errors import DataError


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """Ask for a task metric: at most `max_drop` worse than golden, and at least `minimum`."""

    metric: TaskMetric
    max_drop: float | None = 0.01
    minimum: float | None = None

    def __post_init__(self) -> None:
        if self.max_drop is not None and not 0 <= self.max_drop < math.inf:
            raise DataError(f"{self.max_drop:g} is no loss to allow.", hint="Give 0 or more.", option="max_drop")


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What is judged.

    `outputs` are the judged tensors (`None`: all). A slice below `min_sqnr_db` fails its output; `heads`
    (entries that may be pooled) and `axes` change the slices of an output by name: see `judged_slices`.
    Columns that are nearly silent in the golden run, as scores of absent classes are, fail easily: declare a
    head for them.
    `origins` and `isolated_errors` go to the rows.
    """

    outputs: tuple[str, ...] | None = None
    min_sqnr_db: float = 10.0
    heads: Mapping[str, Sequence[Head]] = field(default_factory=dict)
    axes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    tasks: tuple[TaskCheck, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    isolated_errors: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if math.isnan(self.min_sqnr_db):
            raise DataError(f"{self.min_sqnr_db:g} dB is no bound.", hint="Give a number.", option="min_sqnr")


def compare_outputs(
    golden: Arrays, measured: Arrays, options: CompareOptions | None = None, labels: Arrays | None = None
) -> Comparison:
    """Compare tensors of equal names; judge by the worst slice of each judged output and by the tasks.

    Arrays are `[N, ...]` when `options.tasks` asks for metrics; `labels` are stacked the same way.
    Raises DataError for shapes that differ, unknown names in the options, and labels that do not fit.
    """
    options = options or CompareOptions()
    if not golden:
        raise DataError("compare: there is no golden tensor.")
    judged = tuple(golden) if options.outputs is None else options.outputs
    _check_names(options, golden)
    rows, reasons = [], []
    for name in golden:
        if name not in measured:
            if name in judged:
                reasons.append(f"output {name!r} was not measured.")
            continue
        slices = _named(name, golden, measured, options)
        rows.append(_row(name, golden, measured, slices, options))
        if name in judged:
            reasons += slice_reasons(rows[-1], slices, options.min_sqnr_db)
    tasks = []
    for check in options.tasks:
        task = _task_row(check.metric, golden, measured, labels or {})
        tasks.append(task)
        reasons += task_reasons(task, check.max_drop, check.minimum)
    rows.sort(key=_row_order)
    return Comparison(
        verdict=CompareVerdict.FAIL if reasons else CompareVerdict.PASS,
        reasons=tuple(reasons) or (why_pass(rows, judged, tasks, options.min_sqnr_db),),
        rows=tuple(rows),
        tasks=tuple(tasks),
        missing=tuple(name for name in golden if name not in measured),
        extra=tuple(name for name in measured if name not in golden),
    )


def _check_names(options: CompareOptions, golden: Arrays) -> None:
    for what, names in (("outputs", options.outputs or ()), ("heads", options.heads), ("axes", options.axes)):
        for name in names:
            if name not in golden:
                raise DataError(
                    f"compare: {what} names {name!r}, which is no golden tensor; known: {', '.join(golden)}."
                )
    if options.outputs == ():
        raise DataError("compare: no output is judged.")


def _named(name: str, golden: Arrays, measured: Arrays, options: CompareOptions) -> list[SliceScore]:
    try:
        return judged_slices(golden[name], measured[name], options.heads.get(name, ()), options.axes.get(name))
    except DataError as error:
        raise DataError(f"tensor {name!r}: {error.message}", hint=error.hint) from error


def _row(
    name: str, golden: Arrays, measured: Arrays, slices: Sequence[SliceScore], options: CompareOptions
) -> TensorRow:
    a, b = golden[name], measured[name]
    integers = a.dtype.kind in "iu" and b.dtype.kind in "iu"
    return TensorRow(
        name=name,
        origin=options.origins.get(name, name),
        shape=tuple(a.shape),
        cosine=cosine(a, b),
        sqnr_db=sqnr_db(a, b),
        worst=min(slices, key=lambda score: score.sqnr_db),
        max_abs_error=max_abs_error(a, b),
        mean_abs_error=mean_abs_error(a, b),
        non_finite=pair(a, b).non_finite,
        lsb_histogram=tuple(sorted(lsb_histogram(a, b).items())) if integers else None,
        isolated_error=options.isolated_errors.get(name),
    )


def _row_order(row: TensorRow) -> tuple[float, float]:
    return -math.inf if row.isolated_error is None else -row.isolated_error, row.worst.sqnr_db


def _task_row(metric: TaskMetric, golden: Arrays, measured: Arrays, labels: Arrays) -> TaskRow:
    missing = [name for name in golden if name not in measured]
    if missing:
        raise DataError(f"metric {metric.name!r}: output {missing[0]!r} was not measured.")
    reference = labels if metric.reference is Reference.LABELS else golden
    return TaskRow(
        metric.name,
        metric.higher_is_better,
        metric.score(golden, reference),
        metric.score(measured, reference),
        metric.figures(measured, golden) if isinstance(metric, Decisions) else (),
    )
