"""Standard output that is closed, full, or read by nobody any more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def safe_output() -> Iterator[None]:
    """Let a body write where standard output was closed: nobody asked for what it says."""
    if sys.stdout is not None:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


@contextmanager
def answers_only() -> Iterator[None]:
    """Send to stderr what a body prints, libraries in C and child processes too: standard output is for the answer."""
    stream = sys.__stdout__
    if stream is None or stream is not sys.stdout:
        with redirect_stdout(sys.stderr):
            yield
        return
    stream.flush()
    number = stream.fileno()
    kept = os.dup(number)
    try:
        os.dup2(sys.stderr.fileno(), number)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


def drop_output() -> None:
    """Throw away what standard output still holds: Python would complain once more when it flushes that at its end."""
    stream = sys.__stdout__
    if stream is None or sys.stdout is not stream:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
