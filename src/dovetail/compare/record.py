"""The record of a comparison: plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.compare.decisions.golden import DecisionScore
from dovetail.compare.slices import SliceScore


class CompareVerdict(Enum):
    """Whether the measured outputs are good enough."""

    PASS = "pass"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class TensorRow:
    """Compare one tensor with its golden one.

    `origin` is the node of the imported model that made it. `worst` is the judged slice with the lowest SQNR.
    `non_finite` counts measured values that are NaN or infinite where the golden ones are not.
    `lsb_histogram` has (difference, count) pairs for integer tensors. `isolated_error` is the error that this
    tensor's node adds by itself, when the caller measured it.
    """

    name: str
    origin: str
    shape: tuple[int, ...]
    cosine: float
    sqnr_db: float
    worst: SliceScore
    max_abs_error: float
    mean_abs_error: float
    non_finite: int = 0
    lsb_histogram: tuple[tuple[int, int], ...] | None = None
    isolated_error: float | None = None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task metric of the golden outputs and of the measured ones."""

    name: str
    higher_is_better: bool
    golden: float
    measured: float
    parts: tuple[DecisionScore, ...] = ()
    """The decisions that a metric is made of, each by itself; the worst of a sample counts."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How measured tensors differ from golden ones, and whether they pass.

    `rows` are sorted by isolated error, largest first, then by worst slice, lowest first. `missing` are
    golden tensors that were not measured, `extra` measured ones without a golden one. `reasons` say why it
    fails, or on what it passes.
    """

    verdict: CompareVerdict
    reasons: tuple[str, ...]
    rows: tuple[TensorRow, ...]
    tasks: tuple[TaskRow, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from dovetail.ir.markup import facts_html, table_html

        facts = [("verdict", self.verdict.value.upper()), *(("why", reason) for reason in self.reasons)]
        facts += [(f"metric {task.name}", f"{task.golden:g} golden, {task.measured:g} measured") for task in self.tasks]
        columns = ("tensor", "SQNR dB", "worst dB", "max error", "cosine")
        rows = [
            (
                row.name,
                f"{row.sqnr_db:.1f}",
                f"{row.worst.sqnr_db:.1f}",
                f"{row.max_abs_error:.3g}",
                f"{row.cosine:.4f}",
            )
            for row in self.rows
        ]
        return facts_html("Comparison", facts) + table_html(columns, rows)
