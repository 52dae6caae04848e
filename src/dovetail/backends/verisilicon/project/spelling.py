"""Spell names and numbers of a model in C++: nothing of a model's text reaches the compiler as code."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

_LONGEST = 48
_SHOWN = 96
_RESERVED = frozenset({"con", "prn", "aux", "nul"})
"""Names that some file systems keep for themselves."""


class Names:
    """Hand out identifiers, each once."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._taken: set[str] = set()

    def take(self, text: str) -> str:
        """Return an identifier that resembles a text: ASCII letters, digits and single underscores."""
        plain = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:_LONGEST].strip("_") or "unnamed"
        base = self._prefix + plain
        if not self._prefix and plain.lower() in _RESERVED:
            base = f"{plain}_"
        made, count = base, 1
        # File names may differ in more than case only.
        while made.lower() in self._taken:
            count += 1
            made = f"{base}_{count}"
        self._taken.add(made.lower())
        return made


def string_literal(text: str) -> str:
    """Return a C++ string literal with the UTF-8 bytes of a text."""
    kept = "".join(chr(byte) if _is_plain(byte) else f"\\{byte:03o}" for byte in text.encode(errors="replace"))
    return f'"{kept}"'


def _is_plain(byte: int) -> bool:
    # A question mark may begin a trigraph.
    return 0x20 <= byte < 0x7F and chr(byte) not in '"\\?'


def remark(text: str) -> str:
    """Return a text that can stand in a comment or in Markdown: one line of ASCII, no escapes, not endless."""
    kept = "".join(char if " " <= char < "\x7f" and char not in "\\`" else f"<{ord(char):x}>" for char in text)
    return kept if len(kept) <= _SHOWN else kept[: _SHOWN - 3] + "..."


def real_literal(value: float) -> str:
    """Return a C++ float literal that reads back as the same float32."""
    text = f"{float(np.float32(value)):.9g}"
    return f"{text}f" if any(mark in text for mark in ".e") else f"{text}.0f"


def list_literal(values: Iterable[object]) -> str:
    """Return an initialiser list."""
    return "{" + ", ".join(str(value) for value in values) + "}"


def real_list(values: Iterable[float]) -> str:
    """Return an initialiser list of floats."""
    return list_literal(real_literal(value) for value in values)
