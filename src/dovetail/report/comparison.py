"""Lay out comparisons and verdicts of targets as pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dovetail.backend.target import TargetVerdict
from dovetail.compare.record import CompareVerdict, Comparison, TensorRow
from dovetail.report.decisions import decision_table, differing_table
from dovetail.report.differences import pictures_block
from dovetail.report.figures import number_text
from dovetail.report.page import Block, Page, Picture, Prose, Table, Tone, flexible, left, right, wrapped
from dovetail.report.record import DifferingSample

_SHOWN_REASONS = 20


def comparison_page(
    comparison: Comparison,
    title: str,
    differing: Sequence[DifferingSample] = (),
    pictures: Sequence[Picture] = (),
) -> Page:
    """Return the page of a comparison, worst layers first; `differing` are samples that decisions differ on."""
    isolated = any(row.isolated_error is not None for row in comparison.rows)
    columns = (
        flexible("tensor"),
        *((right("added alone"),) if isolated else ()),
        right("SQNR dB"),
        right("worst dB"),
        right("at axis:index"),
        right("max error"),
        right("cosine"),
    )
    blocks: list[Block] = [
        Table(
            "Tensors",
            columns,
            tuple(_row(row, isolated) for row in comparison.rows),
            "added alone: relative error (RMS) of the worst channel when only this layer is quantised."
            if isolated
            else "",
        )
    ]
    if comparison.tasks:
        rows = tuple((task.name, number_text(task.golden), number_text(task.measured)) for task in comparison.tasks)
        blocks.append(Table("Metrics", (left("metric"), right("golden"), right("measured")), rows))
        blocks += [decision_table(task.parts, "samples compared") for task in comparison.tasks if task.parts]
    if differing:
        blocks.append(differing_table(differing, "samples compared"))
    if pictures:
        blocks.append(pictures_block(tuple(pictures)))
    for what, names in (("Not measured", comparison.missing), ("Without a golden tensor", comparison.extra)):
        if names:
            blocks.append(Prose(what, (", ".join(names),)))
    shown = comparison.reasons[:_SHOWN_REASONS]
    more = len(comparison.reasons) - len(shown)
    blocks.append(Prose("Why", (*shown, *((f"... and {more} more.",) if more else ()))))
    good = comparison.verdict is CompareVerdict.PASS
    return Page(title, tuple(blocks), comparison.verdict.value.upper(), Tone.GOOD if good else Tone.BAD)


def _row(row: TensorRow, isolated: bool) -> tuple[str, ...]:
    return (
        row.name,
        *((number_text(row.isolated_error, 3),) if isolated else ()),
        f"{row.sqnr_db:.1f}",
        f"{row.worst.sqnr_db:.1f}",
        _place(row),
        number_text(row.max_abs_error, 3),
        f"{row.cosine:.4f}",
    )


def _place(row: TensorRow) -> str:
    if row.worst.name:
        return row.worst.name
    return "all" if row.worst.axis is None else f"{row.worst.axis}:{row.worst.start}"


def verdicts_page(verdicts: Sequence[TargetVerdict], shown: Sequence[TargetVerdict], title: str) -> Page:
    """Return the page about what targets say of nodes: how many each precision takes, then the `shown` ones."""
    asked = Counter((item.target, item.precision.value) for item in verdicts)
    taken = Counter((item.target, item.precision.value) for item in verdicts if item.supported)
    summary = tuple((*key, f"{taken[key]} of {count}") for key, count in asked.items())
    rows = tuple(
        (
            item.node,
            item.op,
            f"{item.target}@{item.precision.value}",
            "yes" if item.supported else "no",
            item.engine.value if item.engine is not None else "-",
            item.reason,
        )
        for item in shown
    )
    columns = (
        flexible("node"),
        left("operator"),
        left("placement"),
        left("runs"),
        left("engine"),
        wrapped("why not"),
    )
    return Page(
        title,
        (
            Table("Nodes that each placement takes", (left("target"), left("precision"), right("nodes")), summary),
            Table("Nodes", columns, rows) if rows else Prose("Nodes", ("None is refused.",)),
        ),
    )
