"""What a model's outputs look like, as a table."""

from __future__ import annotations

from dovetail.outputs.describe import names_text, percent_text
from dovetail.outputs.view import OutputsView
from dovetail.report.page import Table, left, right, wrapped
from dovetail.report.record import OutputRow

_MOST_REASONS = 2


def output_rows(view: OutputsView | None) -> tuple[OutputRow, ...]:
    """Return a row for every head; none where the outputs were not looked at."""
    heads = () if view is None else view.heads
    return tuple(
        OutputRow(names_text(head), head.kind.value, head.family, head.confidence, head.reasons) for head in heads
    )


def output_table(rows: tuple[OutputRow, ...], note: str = "") -> Table:
    """Return the table of outputs."""
    cells = tuple((row.kind, percent_text(row.confidence), row.outputs, _why(row)) for row in rows)
    columns = (left("kind"), right("sure"), wrapped("outputs"), wrapped("why"))
    return Table("Outputs, as they are recognised", columns, cells, note)


def _why(row: OutputRow) -> str:
    design = (f"looks like {row.family}",) if row.family and row.family != row.kind else ()
    return "; ".join((*design, *row.reasons[:_MOST_REASONS]))
