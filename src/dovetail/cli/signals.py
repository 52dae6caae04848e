"""Being asked to end: SIGTERM ends a command as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from types import FrameType

_OURS = os.getpid()


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM): commands say what they keep, as for Ctrl-C."""


def hear_termination() -> None:
    """Let SIGTERM raise Terminated, where nobody has said otherwise."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    # A second signal ends the process at once; so does one in a child that was forked.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.getpid() != _OURS:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    raise Terminated
