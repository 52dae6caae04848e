"""Render pages as text: tables fit the width; what is too long for its column goes on in the next line, whole."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from dovetail.report.page import Facts, Page, Pictures, Prose, Table, Tone

WIDTH = 100
"""Columns that every table fits."""

_STYLES = {Tone.PLAIN: "bold", Tone.GOOD: "bold green", Tone.BAD: "bold red"}
_GAP = 2
_NARROWEST = 12


def page_text(page: Page, width: int = WIDTH) -> str:
    """Return a page as plain text without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, highlight=False)
    for piece in page_pieces(page, width):
        console.print(piece)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def page_pieces(page: Page, width: int) -> Iterator[RenderableType]:
    """Yield what a console prints for a page."""
    if page.verdict:
        yield Text(printable(page.verdict), style=_STYLES[page.tone])
        yield Text("")
    yield Text(printable(page.title), style="bold underline")
    for block in page.blocks:
        if isinstance(block, Pictures):
            continue
        yield Text("")
        yield from _block(block, width)


def printable(text: str) -> str:
    """Return the text with characters escaped that could break a line or drive a terminal."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def shorten(text: str, width: int) -> str:
    """Return the text in at most `width` cells, an ellipsis in the middle where some is left out."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    head = _take(text, (width - 1) - (width - 1) // 2)
    tail = _take(text[::-1], (width - 1) // 2)[::-1]
    return f"{head}…{tail}"


def _take(text: str, width: int) -> str:
    used = 0
    for index, sign in enumerate(text):
        used += cell_len(sign)
        if used > width:
            return text[:index]
    return text


def column_widths(natural: Sequence[int], flexible: Sequence[bool], width: int) -> list[int]:
    """Return the widths of columns that fit a line: flexible ones give way first, the widest of them most."""
    widths = list(natural)
    room = width - _GAP * (len(widths) - 1)
    for may_give in ([index for index, flag in enumerate(flexible) if flag], list(range(len(widths)))):
        while sum(widths) > room:
            shrinkable = [index for index in may_give if widths[index] > _NARROWEST]
            if not shrinkable:
                break
            widths[max(shrinkable, key=lambda index: widths[index])] -= 1
    return widths


def _block(block: Table | Facts | Prose, width: int) -> Iterator[RenderableType]:
    if block.title:
        yield Text(printable(block.title), style="bold")
    match block:
        case Table():
            yield _table(block, width)
            if block.note:
                yield Text(printable(block.note), style="dim")
        case Facts():
            yield _facts(block, width)
        case Prose():
            yield from (Text(printable(line)) for line in block.lines)


def _table(table: Table, width: int) -> RichTable:
    cells = [[printable(cell) for cell in row] for row in table.rows]
    natural = [
        max([cell_len(column.title), *(cell_len(row[index]) for row in cells)])
        for index, column in enumerate(table.columns)
    ]
    widths = column_widths(natural, [column.flexible for column in table.columns], width)
    drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), pad_edge=False, show_edge=False)
    for column, size in zip(table.columns, widths, strict=True):
        justify = "right" if column.right else "left"
        drawn.add_column(Text(column.title), justify=justify, width=size, overflow="fold")  # type: ignore[arg-type]
    for row in cells:
        drawn.add_row(*map(Text, row))
    return drawn


def _facts(facts: Facts, width: int) -> RichTable:
    names = max((cell_len(name) for name, _ in facts.pairs), default=0)
    drawn = RichTable.grid(padding=(0, _GAP, 0, 0))
    drawn.add_column(width=min(names, width // 2), no_wrap=True, style="cyan")
    drawn.add_column(max_width=max(width - names - _GAP, 20), overflow="fold")
    for name, value in facts.pairs:
        drawn.add_row(Text(printable(name)), Text(printable(value)))
    return drawn
