"""Standard output and standard error that are closed, full, or read by nobody any more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

_STREAMS = (0, 1, 2)


def hold_streams() -> None:
    """Open nowhere in place of standard streams that are closed: else files that are opened later get their numbers.

    What a library in C then writes to standard error would go into such a file.
    """
    for number in _STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_STREAMS[-1], "w", encoding="utf-8", closefd=False)


def tell(text: str) -> None:
    """Write to standard error; that nobody takes it changes no answer."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _send_nowhere(_STREAMS[-1])


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
    _send_nowhere(stream.fileno())


def _send_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
