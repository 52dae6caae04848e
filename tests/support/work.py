"""Bounds of work that are the same on every machine: calls, and memory; waiting and other programs cost nothing."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

PATIENCE_S = 1800.0
"""How long to wait for what must happen; it only ends a test that would never end."""
_MIB = 1 << 20


@dataclass
class Work:
    """What a block did: calls of functions of Python and of C in this thread, and bytes held at its peak.

    Neither knows what a library in C does within one call, nor what it allocates past Python.
    """

    calls: int = 0
    peak_bytes: int = 0


@contextmanager
def counted() -> Iterator[Work]:
    """Count what a block does."""
    done, before = Work(), sys.getprofile()

    def count(_: FrameType, event: str, __: object) -> None:
        if event in ("call", "c_call"):
            done.calls += 1

    tracemalloc.start()
    sys.setprofile(count)
    try:
        yield done
    finally:
        sys.setprofile(before)
        done.peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


@contextmanager
def little(most_calls: int = 100_000, most_mib: int = 64) -> Iterator[None]:
    """Fail a block that does more than this."""
    with counted() as done:
        yield
    assert done.calls <= most_calls, f"{done.calls} calls, and at most {most_calls} are allowed"
    assert done.peak_bytes <= most_mib * _MIB, f"{done.peak_bytes >> 20} MiB, and at most {most_mib} are allowed"


def calls_of(action: Callable[[], object]) -> int:
    """Return the calls that an action makes."""
    with counted() as done:
        action()
    return done.calls
