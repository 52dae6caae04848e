"""What a converter says when it cannot go on."""

from __future__ import annotations


class Refusal(Exception):
    """A reason for people, with what to try."""


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first lines of its text, on one line."""
    text = " ".join(str(error).split())[:400]
    return f"{type(error).__name__}: {text}." if text else f"{type(error).__name__}."
