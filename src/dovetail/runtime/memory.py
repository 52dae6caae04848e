"""How much memory this process has, with the processes that it started for drivers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NOW, _PEAK = "VmRSS:", "VmHWM:"
_RESET = "5"
"""What the kernel wants to be told to forget the peak (proc(5), clear_refs)."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Memory of the process that ran a model, with the processes that it started, in bytes."""

    before_bytes: int | None
    """Before the model was loaded; None where nobody looked."""
    peak_bytes: int
    """At most while it was run: all models of the process, and the program itself."""

    @property
    def added_bytes(self) -> int | None:
        """Return how much more there was than before the model was loaded."""
        return None if self.before_bytes is None else max(0, self.peak_bytes - self.before_bytes)


def memory_now() -> int | None:
    """Return the bytes that are in memory; None where the system does not tell."""
    return _total(_NOW)


def memory_peak() -> int | None:
    """Return the most bytes since the last reset; None where the system does not tell.

    The peaks of several processes are added, though they may not have coincided.
    """
    return _total(_PEAK)


def reset_peak() -> None:
    """Let the peak begin anew, where the system lets it; else it is that since the process began."""
    for process in _family():
        try:
            (process / "clear_refs").write_text(_RESET, encoding="ascii")
        except OSError:
            continue


def _total(field: str) -> int | None:
    sizes = [size for process in _family() if (size := _read(process, field)) is not None]
    return sum(sizes) if sizes else None


def _read(process: Path, field: str) -> int | None:
    try:
        text = (process / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    line = next((line for line in text.splitlines() if line.startswith(field)), "")
    digits = line.removeprefix(field).strip().split(" ")[0]
    return int(digits) * 1024 if digits.isdigit() else None


def _family() -> Iterator[Path]:
    """Yield the folders of this process and of all that it has started, in /proc."""
    waiting = [str(os.getpid())]
    while waiting:
        process = Path("/proc") / waiting.pop()
        yield process
        try:
            tasks = list((process / "task").iterdir())
            waiting += [number for task in tasks for number in (task / "children").read_text("ascii").split()]
        except OSError:
            continue
