"""dovetail diff: what changed between two plans."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode, Verb

_WHAT = "Plan (.json), bundle, or folder of 'dovetail tune'."


@dataclass(frozen=True, kw_only=True)
class Diff(Verb):
    """Say what changed between two plans, bundles or folders of `dovetail tune`.

    Placements by unit with reasons, repairs, scales, and the scores and latency that the searches recorded, where both
    sides have them. The exit code is 0 when they are the same, 1 when they differ and 2 for bad input.
    """

    first: Annotated[Path, typer.Argument(metavar="A", help=_WHAT, show_default=False)]
    second: Annotated[Path, typer.Argument(metavar="B", help=_WHAT, show_default=False)]

    def run(self, screen: Screen) -> Answer:
        from dovetail.report.changes import changes_document, changes_page, compare_saved
        from dovetail.report.saved import open_saved

        changes = compare_saved(open_saved(self.first), open_saved(self.second))
        code = ExitCode.NO if changes.count else ExitCode.DONE
        return Answer(changes_document(changes), changes_page(changes), code)
