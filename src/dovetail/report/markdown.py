"""Render pages as Markdown (GitHub's tables): the verdict first, blocks in order; pictures are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.report.page import Block, Facts, Page, Prose, Table
from dovetail.report.text import printable
from dovetail.report.view import RunView

_SPECIAL = frozenset("\\`*_[]<>|#~&")
"""Signs that Markdown or HTML would take for more than themselves."""


def runs_markdown(views: Sequence[RunView]) -> str:
    """Return several runs, one after the other, each with how to get it again."""
    return "\n".join(f"{page_markdown(view.page)}{_again(view)}" for view in views)


def page_markdown(page: Page) -> str:
    """Return a page as Markdown."""
    lines = [f"# {_plain(page.title)}", ""]
    if page.verdict:
        lines += [f"**{_plain(page.verdict)}**", ""]
    for block in page.blocks:
        lines += _block(block)
    return "\n".join(lines)


def _again(view: RunView) -> str:
    if not view.reproduce:
        return ""
    fence = "`" * max(3, 1 + max(_ticks(line) for line in view.reproduce))
    told = "\n".join(printable(line) for line in view.reproduce)
    return f"## How to get it again\n\n{fence}text\n{told}\n{fence}\n"


def _ticks(line: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, "".join(sign if sign == "`" else " " for sign in line).split()), default=0)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        content = list(_table(block))
    elif isinstance(block, Facts):
        content = ["| | |", "| --- | --- |", *(f"| {_plain(name)} | {_plain(value)} |" for name, value in block.pairs)]
    elif isinstance(block, Prose):
        content = [f"{_plain(line)}  " for line in block.lines]
    else:
        return
    if block.title:
        yield from (f"## {_plain(block.title)}", "")
    yield from (*content, "")


def _table(table: Table) -> Iterator[str]:
    yield _row([column.title for column in table.columns])
    yield _row(["---:" if column.right else "---" for column in table.columns])
    for row in table.rows:
        yield _row([_plain(cell) for cell in row])
    if table.note:
        yield from ("", _plain(table.note))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in printable(text))
