"""Options in sections: what a command is about first, what every command has last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import typer
from typer.core import TyperCommand

from dovetail.cli.strict import why_refused

OTHER = "Options"
"""The section of options that no other one has."""


def sectioned(sections: Mapping[str, str], strict: Mapping[str, type]) -> type[TyperCommand]:
    """Return a class of commands whose help has these sections, by option; those without one come first.

    `strict` says which values are paths and which are figures: neither is empty or infinite.
    """

    class Sectioned(TyperCommand):
        """A command whose help is in sections."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            # As they are written: Typer has made the current folder of an empty path by the time that it gives it.
            written, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            for parameter in self.get_params(ctx):
                kind = strict.get(parameter.name or "")
                why = None if kind is None else why_refused(kind, written.get(parameter.name))
                if why is not None:
                    raise typer.BadParameter(why, ctx=ctx, param=cast("Any", parameter))
            return super().parse_args(ctx, args)

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
