"""dovetail board remove: forget a board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class BoardRemove(Verb):
    """Forget a board and its token."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the board.", show_default=False)]

    def run(self, screen: Screen) -> Answer:
        from dovetail.remote import remove_board
        from dovetail.report.page import Facts, Page

        remove_board(self.name)
        return Answer({"removed": self.name}, Page("Board", (Facts("", ((self.name, "removed"),)),)))
