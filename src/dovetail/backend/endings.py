"""How a process of a vendor's ended, and whether that says something about what it was given."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from dovetail.errors import NO_MEMORY, CompileFailure

_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Nobody sends these to itself: the kernel does where memory is short, or a person."""
_NO_ROOM = (*NO_MEMORY, "No space left on device")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended, in words and as a kind of failure."""

    cause: str
    failure: CompileFailure


def ending_of(code: int | None, said: str) -> Ending:
    """Return how a process ended, by its exit code and the last lines of its log; the code is None where it hangs."""
    if code is None:
        return Ending("it stopped answering", CompileFailure.HUNG)
    if code >= 0:
        return Ending(f"exit code {code}", _crash(said))
    if -code == signal.SIGXCPU:
        return Ending("it used up its processor time (SIGXCPU)", CompileFailure.HUNG)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return Ending(name, CompileFailure.KILLED if -code in _FROM_OUTSIDE else _crash(said))


def _crash(said: str) -> CompileFailure:
    """Return what a process did that ended by itself: one that got no room says nothing about what it was given."""
    return CompileFailure.KILLED if any(word in said for word in _NO_ROOM) else CompileFailure.CRASHED
