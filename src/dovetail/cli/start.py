"""Where the `dovetail` program begins: signals mean something before anything else is loaded."""

from __future__ import annotations

from dovetail.cli.memory import SHORT_OF_MEMORY, give_memory_back, is_memory_short, too_low_a_ceiling
from dovetail.cli.output import hold_streams, tell
from dovetail.cli.signals import Terminated, asked_to_end, hear_signals

_NO_MEMORY, _INTERRUPTED, _TERMINATED = 2, 130, 143


def main() -> int:
    """Run one command and return its exit code."""
    try:
        hold_streams()
        hear_signals()
        give_memory_back()
        if refusal := too_low_a_ceiling():
            tell(f"error: {refusal}\n")
            return _NO_MEMORY
        from dovetail.cli.main import main as run

        return run()
    except KeyboardInterrupt as end:
        # Before a command began, or as it ended: nothing is under way.
        tell("error: interrupted: nothing was written.\n")
        return _TERMINATED if isinstance(end, Terminated) else _INTERRUPTED
    except Exception as error:
        if asked_to_end() is not None:
            tell("error: interrupted: nothing was written.\n")
            return _TERMINATED if asked_to_end() is Terminated else _INTERRUPTED
        # Memory that does not even do for what commands are made of.
        if not is_memory_short(error):
            raise
        tell(f"error: {SHORT_OF_MEMORY}: nothing was written.\n")
        return _NO_MEMORY
