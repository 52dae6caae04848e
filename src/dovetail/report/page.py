"""Pages: what is shown to a person, before anyone decides how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Tone(Enum):
    """How good a piece of news is."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; a `flexible` one gives up width first, its cells going on in the next line; `wrapped` is prose.

    Cells of a `listed` one are names with commas between.
    """

    title: str
    right: bool = False
    flexible: bool = False
    wrapped: bool = False
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts; `note` is said below."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Named values, one a line."""

    title: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Prose:
    """Lines of text, each wrapped on its own."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG file with what is said of it."""

    caption: str
    png: bytes


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures one below the other; `note` is said above. Where pictures cannot be shown, none of it is."""

    title: str
    items: tuple[Picture, ...]
    note: str = ""


_LISTED = 8
"""Names of a cell that are left where a page is shortened, at most."""

Block = Table | Facts | Prose | Pictures


@dataclass(frozen=True, slots=True)
class Page:
    """What one command says: the verdict in one line first, a title, and blocks in order."""

    title: str
    blocks: tuple[Block, ...]
    verdict: str = ""
    tone: Tone = Tone.PLAIN

    def shortened(self, rows: int, lines: int, whole: str) -> Page:
        """Return the page with at most so many rows of a table and lines of a text, and where the `whole` of it is.

        Long lists of names in a cell become their first ones.
        """
        return replace(self, blocks=tuple(_shortened(block, rows, lines, whole) for block in self.blocks))


def _shortened(block: Block, rows: int, lines: int, whole: str) -> Block:
    if isinstance(block, Table):
        kept = replace(block, rows=tuple(_first_names(block.columns, row) for row in block.rows[:rows]))
        more = f"... and {len(block.rows) - rows} more, in {whole}."
        return kept if len(block.rows) <= rows else replace(kept, note=f"{more} {block.note}".strip())
    if isinstance(block, Prose) and len(block.lines) > lines:
        return replace(block, lines=(*block.lines[:lines], f"... and {len(block.lines) - lines} more, in {whole}."))
    return block


def _first_names(columns: tuple[Column, ...], row: tuple[str, ...]) -> tuple[str, ...]:
    """Return a row with the first names of long lists, and how many are left out."""
    cells: list[str] = []
    for column, cell in zip(columns, row, strict=True):
        names = cell.split(", ") if column.listed else []
        short = f"{', '.join(names[:_LISTED])} ... and {len(names) - _LISTED} more"
        cells.append(short if len(names) > _LISTED + 1 else cell)
    return tuple(cells)


def left(title: str) -> Column:
    """Return a column of short texts."""
    return Column(title)


def right(title: str) -> Column:
    """Return a column of numbers."""
    return Column(title, right=True)


def flexible(title: str) -> Column:
    """Return a column of names that may go on in the next line; they are shown whole."""
    return Column(title, flexible=True)


def wrapped(title: str) -> Column:
    """Return a column of sentences, which are shown whole, on several lines where they have to be."""
    return Column(title, flexible=True, wrapped=True)


def listed(title: str) -> Column:
    """Return a column of lists of names, with commas between, that may go on in the next line."""
    return Column(title, flexible=True, listed=True)
