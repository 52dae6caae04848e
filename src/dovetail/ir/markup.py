"""Small pieces of HTML for notebooks; only the standard library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_MOST_ROWS = 60


def facts_html(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Return a heading and what is known under it, escaped."""
    rows = "".join(f"<tr><th>{_shown(name)}</th><td>{_shown(value)}</td></tr>" for name, value in pairs)
    return f"<div><b>{_shown(title)}</b><table>{rows}</table></div>"


def table_html(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, escaped; of a long one the first rows, and how many there are."""
    head = "".join(f"<th>{_shown(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_shown(cell)}</td>' for cell in row)}</tr>" for row in rows[:_MOST_ROWS])
    more = f"<p>{_MOST_ROWS} of {len(rows)} rows</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _shown(text: str) -> str:
    return escape("".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text))
