"""The screen: answers on stdout, progress and complaints on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from dovetail.report.page import Page

_WIDEST = 100

Advance = Callable[[int], None]
"""Called with the number of steps done so far."""


class Screen:
    """Show answers; for machines only JSON goes to stdout."""

    def __init__(self, *, machine: bool, force_progress: bool) -> None:
        self.machine = machine
        self._progress = force_progress or sys.stderr.isatty()

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
        line = " ".join(message.split())
        printable = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line)
        sys.stderr.write(f"error: {printable}\n")
        sys.stderr.flush()

    @contextmanager
    def progress(self, title: str, total: int | None = None) -> Iterator[Progress]:
        """Show a bar while the body runs, when someone looks."""
        if not self._progress:
            yield Progress(lambda title: None, lambda done: None)
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
            yield Progress(
                lambda title: bars.update(task, description=title), lambda done: bars.update(task, completed=done)
            )


class Progress:
    """Tell how far the work is."""

    def __init__(self, rename: Callable[[str], None], advance: Advance) -> None:
        self.rename = rename
        self.advance = advance


def _console(stream: object) -> Console:
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False)  # type: ignore[arg-type]
    if not console.is_terminal or console.width > _WIDEST:
        console.width = _WIDEST
    return console
