"""Being asked to end: SIGTERM ends a command as Ctrl-C does, and nothing swallows either."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

_OURS = os.getpid()
_AGAIN_S = 0.05


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM): commands say what they keep, as for Ctrl-C."""


class _Asked:
    """Tells whether the process was asked to end, and how."""

    by: type[KeyboardInterrupt] | None = None


def hear_signals() -> None:
    """Let SIGTERM raise Terminated, where nobody has said otherwise, and keep in mind that a signal came."""
    _Asked.by = None
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _not_raised


def asked_to_end() -> type[KeyboardInterrupt] | None:
    """Return what a signal raised; libraries that are stopped while they are loaded end with errors of their own."""
    return _Asked.by


def _interrupt(number: int, frame: FrameType | None) -> None:
    _Asked.by = KeyboardInterrupt
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> None:
    # A second signal ends the process at once; so does one in a child that was forked.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.getpid() != _OURS:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    _Asked.by = Terminated
    raise Terminated


def _not_raised(unraisable: sys.UnraisableHookArgs) -> None:
    """Let a signal that came where Python cannot raise, as in a finaliser, come again a moment later."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    # As the process ends there are no more threads, nor anything to stop.
    with suppress(RuntimeError):
        again = threading.Timer(_AGAIN_S, _thread.interrupt_main)
        again.daemon = True
        again.start()
