"""Options in sections: what a command is about first, what every command has last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand

OTHER = "Options"
"""The section of options that no other one has."""


def sectioned(sections: Mapping[str, str]) -> type[TyperCommand]:
    """Return a class of commands whose help has these sections, by option; those without one come first."""

    class Sectioned(TyperCommand):
        """A command whose help is in sections."""

        def format_options(self, ctx: Any, formatter: Any) -> None:
            titles = {"Arguments": [], OTHER: []} | {title: [] for title in sections.values()}  # type: dict[str, list[Any]]
            for parameter in self.get_params(ctx):
                row = parameter.get_help_record(ctx)
                if row is None:
                    continue
                argument = parameter.param_type_name == "argument"
                titles["Arguments" if argument else sections.get(parameter.name or "", OTHER)].append(row)
            for title, rows in titles.items():
                if rows:
                    with formatter.section(title):
                        formatter.write_dl(rows)

    return Sectioned
