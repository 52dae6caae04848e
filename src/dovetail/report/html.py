"""Render pages as one HTML file: nothing is fetched, pictures are inside."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from html import escape

from dovetail.report.page import Block, Facts, Page, Pictures, Prose, Table
from dovetail.report.text import printable

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 70em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin: 2em 0 .4em; }
.good { color: #17692b; } .bad { color: #a01621; } .verdict { font-weight: bold; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; } th, td { padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid #888; } td { border-bottom: 1px solid #ddd; }
.long { overflow-wrap: anywhere; }
.right { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.note, figcaption { color: #555; } figure { margin: 1em 0; } img { max-width: 100%; }
"""


def page_html(page: Page) -> str:
    """Return a page as a whole HTML document."""
    verdict = [f'<p class="verdict {page.tone.value}">{escaped(page.verdict)}</p>'] if page.verdict else []
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="Dovetail: a report">',
        f"<title>{escaped(page.title)}</title>",
        f"<style>{_STYLE}</style></head><body>",
        *verdict,
        f"<h1>{escaped(page.title)}</h1>",
        *(line for block in page.blocks for line in block_html(block)),
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def fragment_html(page: Page) -> str:
    """Return a page as a part of another one, such as a notebook."""
    verdict = [f'<p class="verdict"><b>{escaped(page.verdict)}</b></p>'] if page.verdict else []
    return "\n".join(
        [f"<h1>{escaped(page.title)}</h1>", *verdict, *(line for item in page.blocks for line in block_html(item))]
    )


def escaped(text: str) -> str:
    """Return a text that is shown as it is in HTML."""
    return escape(printable(text))


def block_html(block: Block) -> Iterator[str]:
    """Yield the lines of a block."""
    if block.title:
        yield f"<h2>{escaped(block.title)}</h2>"
    match block:
        case Table():
            yield from _table(block)
        case Facts():
            yield f'{_wide(block.title or "Facts")}<table class="facts">'
            yield from (
                f'<tr><th scope="row">{escaped(name)}</th><td class="long">{escaped(value)}</td></tr>'
                for name, value in block.pairs
            )
            yield "</table></div>"
        case Prose():
            yield from (f"<p>{escaped(line)}</p>" for line in block.lines)
        case Pictures():
            yield from _note(block.note)
            for item in block.items:
                source = b64encode(item.png).decode("ascii")
                image = f'<img src="data:image/png;base64,{source}" alt="{escaped(item.caption)}">'
                yield f"<figure>{image}<figcaption>{escaped(item.caption)}</figcaption></figure>"


def _table(table: Table) -> Iterator[str]:
    # Only what may be shortened elsewhere is broken within a word.
    sides = [
        ' class="right"' if column.right else ' class="long"' if column.flexible else "" for column in table.columns
    ]
    heads = "".join(_head(column.title, side) for column, side in zip(table.columns, sides, strict=True))
    yield f"{_wide(table.title or 'Table')}<table><tr>{heads}</tr>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td{side}>{escaped(cell)}</td>' for cell, side in zip(row, sides, strict=True))}</tr>"
    yield "</table></div>"
    yield from _note(table.note)


def _fact(name: str, value: str) -> str:
    head = f'<th scope="row">{escaped(name)}</th>' if name else "<td></td>"
    return f'<tr>{head}<td class="long">{escaped(value)}</td></tr>'


def _head(title: str, side: str) -> str:
    return f'<th scope="col"{side}>{escaped(title)}</th>' if title else f"<td{side}></td>"


def _wide(title: str) -> str:
    """Return the start of what scrolls sideways where it is too wide, by keys too."""
    return f'<div class="wide" tabindex="0" role="group" aria-label="{escaped(title)}">'


def _note(note: str) -> Iterator[str]:
    if note:
        yield f'<p class="note">{escaped(note)}</p>'
