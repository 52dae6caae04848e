"""What other libraries raise, in one line."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message."""
    return (str(error).splitlines() or [type(error).__name__])[0].strip()
