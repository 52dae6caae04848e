"""The screen: answers on stdout, progress and complaints on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dovetail.cli.output import tell

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from dovetail.report.page import Page

_WIDEST = 100
_QUIET_S = 2.0

Advance = Callable[[int], None]
"""Called with the number of steps done so far."""


class Screen:
    """Show answers; for machines only JSON goes to stdout."""

    def __init__(self, *, machine: bool, force_progress: bool) -> None:
        self.machine = machine
        self._progress = force_progress

    def write(self, text: str) -> None:
        """Write text to stdout as it is."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()

    def show(self, document: Mapping[str, object], page: Page) -> None:
        """Show an answer in the form that was asked for."""
        if self.machine:
            from dovetail.report.serial import json_text

            self.write(json_text(document))
            return
        from dovetail.report.text import page_pieces

        console = _console(sys.stdout)
        for piece in page_pieces(page, console.width):
            console.print(piece)
        sys.stdout.flush()

    def complain(self, message: str) -> None:
        """Write one line to stderr."""
        tell(f"error: {_printable(message)}\n")

    def note(self, message: str) -> None:
        """Write one line to stderr that is no error."""
        tell(f"note: {_printable(message)}\n")

    @contextmanager
    def progress(self, title: str, total: int | None = None) -> Iterator[Progress]:
        """Show a bar while the body runs, when someone looks."""
        if not sys.stderr.isatty():
            yield _Lines(title, total) if self._progress else Progress()
            return
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Bars(*columns, console=_console(sys.stderr), transient=True) as bars:
            task = bars.add_task(title, total=total)
            yield _Bar(bars, task)


class Progress:
    """Progress that nobody sees."""

    def begin(self, title: str, total: int | None = None) -> None:
        """Begin a stage of so many steps."""

    def rename(self, title: str) -> None:
        """Show what is being done now."""

    def advance(self, done: int) -> None:
        """Show how many steps are done."""

    def say(self, text: str) -> None:
        """Show a line that stays."""


class _Bar(Progress):
    """Show a bar."""

    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def begin(self, title: str, total: int | None = None) -> None:
        # A bar that had an end cannot lose it: a stage has a bar of its own.
        self._bars.remove_task(self._task)
        self._task = self._bars.add_task(title, total=total)

    def rename(self, title: str) -> None:
        self._bars.update(self._task, description=title)

    def advance(self, done: int) -> None:
        self._bars.update(self._task, completed=done)

    def say(self, text: str) -> None:
        self._bars.console.print(_printable(text))


class _Lines(Progress):
    """Write a line now and then, for logs."""

    def __init__(self, title: str, total: int | None) -> None:
        self.begin(title, total)

    def begin(self, title: str, total: int | None = None) -> None:
        self._of = "" if total is None else f" of {total}"
        self._said = time.monotonic()
        self.rename(title)

    def rename(self, title: str) -> None:
        self._title = title
        tell(f"{title}\n")

    def say(self, text: str) -> None:
        tell(f"{_printable(text)}\n")

    def advance(self, done: int) -> None:
        if time.monotonic() - self._said >= _QUIET_S:
            self._said = time.monotonic()
            tell(f"{self._title}: {done}{self._of}\n")


def _printable(message: str) -> str:
    """Return a message on one line, without signs that steer a terminal."""
    line = " ".join(message.split())
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line)


def _console(stream: object) -> Console:
    from rich.console import Console

    class Plain(Console):
        """A console that leaves it to us what a reader who has gone means."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = Plain(file=stream, highlight=False, markup=False)  # type: ignore[arg-type]
    if not console.is_terminal or console.width > _WIDEST:
        console.width = _WIDEST
    return console
