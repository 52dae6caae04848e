"""dovetail env remove: give back what converters' environments take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class EnvRemove(Verb):
    """Remove environments of converters; with --converted also the models that are kept after conversion."""

    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Environments.", show_default=False)] = field(
        default_factory=list
    )
    converted: Annotated[bool, typer.Option("--converted", help="Remove the converted models too.")] = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.environments import clear_cache, find_environment, remove_environment
        from dovetail.report.page import Facts, Page

        wanted = [find_environment(name) for name in self.names]
        removed = [environment.name for environment in wanted if remove_environment(environment)]
        freed = clear_cache() if self.converted else 0
        facts = [(name, "removed" if name in removed else "was not there") for name in self.names]
        facts += [("converted models", f"removed, {freed / 1e6:.1f} MB")] if self.converted else []
        document = {"removed": removed, "converted_bytes": freed}
        return Answer(document, Page("Environments of converters", (Facts("", tuple(facts)),)))
