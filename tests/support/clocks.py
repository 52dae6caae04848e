"""Bounds of time that hold on a busy machine: processor time, beside what fixed work costs in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 1800.0
"""How long to wait for what must happen; it only ends a test that would never end."""
_LOOPS = 200_000
_TRIES = 5


def unit_s() -> float:
    """Return the processor time of a fixed loop, the least of some: about 10 ms on a laptop of 2020."""
    times: list[float] = []
    for _ in range(_TRIES):
        start, total = time.thread_time(), 0
        for number in range(_LOOPS):
            total += number & 7
        times.append(time.thread_time() - start)
    return min(times)


def units(action: Callable[[], object], tries: int = _TRIES) -> float:
    """Return the processor time of an action, the least of some tries, in units of `unit_s`."""
    times: list[float] = []
    for _ in range(tries):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times) / unit_s()


@contextmanager
def quick(most_s: float = 2.0) -> Iterator[None]:
    """Fail a block that takes more of the processor than this; waiting for it costs nothing."""
    start = time.process_time()
    yield
    spent = time.process_time() - start
    assert spent < most_s, f"{spent:.2f} s of the processor, and at most {most_s:g} s are allowed"
