"""Write Python programs that use the facade."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

HEAD = ("from pathlib import Path", "", "import dovetail", "")


def program(*lines: str | Iterable[str]) -> str:
    """Return a program: the usual imports, then the lines."""
    flat: list[str] = list(HEAD)
    for line in lines:
        flat.extend([line] if isinstance(line, str) else line)
    return "\n".join(flat) + "\n"


def path_text(path: Path | str) -> str:
    """Return a path as Python source."""
    return f"Path({str(path)!r})"
