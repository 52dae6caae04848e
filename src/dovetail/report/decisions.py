"""What a candidate decides, beside float: figures, and the samples that differ."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.compare.decisions import DecisionScore
from dovetail.report.figures import number_text
from dovetail.report.page import Table, flexible, left, right, wrapped
from dovetail.report.record import DifferingSample


def decision_table(figures: Sequence[DecisionScore], title: str) -> Table:
    """Return the table of decisions, each by itself."""
    worst = max(figures, key=lambda item: item.loss)
    several = len(figures) > 1
    columns = (
        left("decision"),
        left("kind"),
        flexible("outputs"),
        right("float"),
        right("candidate"),
        right("loss"),
        left("that is"),
        *((left(""),) if several else ()),
    )
    rows = tuple(
        (
            item.name,
            item.kind,
            ", ".join(item.outputs),
            number_text(item.float_score),
            number_text(item.score),
            number_text(item.loss, 3),
            item.unit,
            *(("<- worst" if item is worst and item.loss > 0 else "",) if several else ()),
        )
        for item in figures
    )
    note = "Of several decisions the worst of each sample counts." if several else ""
    return Table(f"Decisions, each against float's ({title})", columns, rows, note)


def differing_table(samples: Sequence[DifferingSample], title: str) -> Table:
    """Return the table of samples that differ most."""
    columns = (flexible("sample"), right("loss"), wrapped("float"), wrapped("candidate"))
    rows = tuple(
        (item.sample, number_text(item.loss, 3), item.float_decides, item.candidate_decides) for item in samples
    )
    return Table(f"Samples that differ most ({title})", columns, rows)
