"""How a fit tells of its progress."""

from __future__ import annotations

from typing import Protocol

from dovetail.search.trial import Trial


class FitListener(Protocol):
    """What is told of progress."""

    def converting(self, what: str, share: float) -> None:
        """A model of another framework is being converted; `share` of this step is done."""

    def stage(self, title: str, total: int | None = None) -> None:
        """A stage begins; it has `total` steps where that is known."""

    def advance(self, done: int) -> None:
        """So many steps of the stage are done."""

    def note(self, text: str) -> None:
        """Something was found out that the answer depends on, before the search begins."""


class SilentFit:
    """A listener that shows nothing."""

    def converting(self, what: str, share: float) -> None:
        """Show nothing."""

    def stage(self, title: str, total: int | None = None) -> None:
        """Show nothing."""

    def advance(self, done: int) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""


class SearchStages:
    """A fit's listener as the search's: its trials are steps."""

    def __init__(self, listener: FitListener) -> None:
        self._listener = listener
        self._trials = 0

    def stage(self, title: str) -> None:
        """A stage of the search begins."""
        self._listener.stage(f"searching: {title}")

    def trial(self, trial: Trial) -> None:
        """A plan was judged."""
        self._trials += 1
        self._listener.advance(self._trials)
