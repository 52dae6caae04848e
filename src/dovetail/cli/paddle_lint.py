"""dovetail paddle lint: what is wrong in subgraph.txt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.files import read_file
from dovetail.cli.format_options import LogOption, VersionOption, findings_block, rows_of, tone_of
from dovetail.cli.render import Screen
from dovetail.cli.snippet import path_text, program
from dovetail.cli.verb import Answer, ExitCode, Verb


@dataclass(frozen=True, kw_only=True)
class PaddleLint(Verb):
    """Say what is wrong or doubtful in subgraph.txt or a mixed-precision file.

    Paddle Lite says nothing: a rule that it cannot use is dead. Errors end with exit code 1, warnings with 0.
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", help="subgraph.txt.", show_default=False)]
    log: LogOption = None
    version: VersionOption = ""
    previous: Annotated[Path | None, typer.Option("--previous", metavar="FILE", help="The file of the run before.")] = (
        None
    )
    cache: Annotated[str, typer.Option("--cache", metavar="FOLDER", help="Where compiled subgraphs are kept.")] = ""

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.paddle import LintContext, lint
        from dovetail.formats.paddle.formats import dialect_of, operations_of
        from dovetail.report import Page

        operations = () if self.log is None else operations_of(read_file(self.log), str(self.log))
        context = LintContext(
            str(self.file),
            dialect_of(self.version),
            operations,
            previous=None if self.previous is None else read_file(self.previous),
            cache_folder=self.cache,
        )
        found = lint(read_file(self.file), context)
        wrong = [item for item in found if item.severity.value == "error"]
        verdict = f"{len(wrong)} errors, {len(found) - len(wrong)} warnings."
        page = Page(str(self.file), (findings_block(found),) if found else (), verdict, tone_of(found))
        document = {"file": str(self.file), "findings": rows_of(found)}
        return Answer(document, page, ExitCode.NO if wrong else ExitCode.DONE)

    def python(self) -> str:
        log = "" if self.log is None else f", operations_of({path_text(self.log)}.read_bytes(), {str(self.log)!r})"
        previous = "" if self.previous is None else f", previous={path_text(self.previous)}.read_bytes()"
        cache = f", cache_folder={self.cache!r}" if self.cache else ""
        return program(
            "from dovetail.formats.paddle import LintContext, lint",
            "from dovetail.formats.paddle.formats import dialect_of, operations_of",
            "",
            f"context = LintContext({str(self.file)!r}, dialect_of({self.version!r}){log}{previous}{cache})",
            f"for finding in lint({path_text(self.file)}.read_bytes(), context):",
            "    print(finding)",
        )
