"""Tables in plain text and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

Cells = Sequence[Sequence[str]]


def text(heads: Sequence[str], rows: Cells) -> str:
    """Return a table with aligned columns."""
    widths = [max(len(str(row[column])) for row in (heads, *rows)) for column in range(len(heads))]
    lines = [heads, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def markdown(heads: Sequence[str], rows: Cells) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def number(value: float | None, digits: int = 4) -> str:
    """Return a figure, or a dash where there is none."""
    return "-" if value is None or value != value else f"{value:.{digits}f}"
