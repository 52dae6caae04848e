"""dovetail env install: make converters' environments before they are needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class EnvInstall(Verb):
    """Make environments of converters in the user's data folder, with the pinned packages of `dovetail env list`.

    It is done by itself when a model needs one; here it is done ahead, for a machine without a network later on.
    """

    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Environments.", show_default=False)] = field(
        default_factory=list
    )
    again: Annotated[bool, typer.Option("--again", help="Make them anew even where they are there.")] = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.environments import find_environment, make_environment
        from dovetail.report.page import Page, Table, flexible, left

        wanted = [find_environment(name) for name in self.names]
        made = []
        with screen.progress("making environments", 100) as bar:

            def show(what: str, share: float) -> None:
                bar.rename(what)
                bar.advance(int(100 * share))

            for environment in wanted:
                made.append(make_environment(environment, show, again=self.again))
        rows = tuple((one.environment.name, one.state.value, str(one.folder)) for one in made)
        document = {
            "environments": [
                {"name": one.environment.name, "state": one.state.value, "folder": str(one.folder)} for one in made
            ]
        }
        table = Table("Environments", (left("name"), left("state"), flexible("folder")), rows)
        return Answer(document, Page("Environments of converters", (table,)))

    def resume_note(self) -> str:
        return "what was half made is gone."
