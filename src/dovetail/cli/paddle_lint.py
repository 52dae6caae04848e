"""dovetail paddle lint: what is wrong in subgraph.txt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.format_options import LogOption, VersionOption, findings_block, rows_of, tone_of
from dovetail.cli.loading import LoadingVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DovetailError
from dovetail.files import read_file


@dataclass(frozen=True, kw_only=True)
class PaddleLint(LoadingVerb):
    """Say what is wrong or doubtful in subgraph.txt or a mixed-precision file.

    Paddle Lite says nothing: a rule that it cannot use is dead. Errors end with exit code 1, warnings with 0.
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", help="subgraph.txt.", show_default=False)]
    log: LogOption = None
    version: VersionOption = ""
    mixed: Annotated[
        bool, typer.Option("--mixed", help="The file is the mixed-precision one: its operators stay on the NPU.")
    ] = False
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Plan that the file was exported from; with --model.")
    ] = None
    model: Annotated[
        Path | None, typer.Option("--model", metavar="MODEL", help="Model that the file is used with; with --plan.")
    ] = None
    previous: Annotated[Path | None, typer.Option("--previous", metavar="FILE", help="The file of the run before.")] = (
        None
    )
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="FOLDER", help="Where compiled subgraphs (.nnc) are kept.")
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.paddle import LintContext, lint, parse_log
        from dovetail.formats.paddle.formats import dialect_of, operations_of
        from dovetail.report import Page

        content = None if self.log is None else read_file(self.log)
        operations = () if content is None else operations_of(content, str(self.log))
        context = LintContext(
            str(self.file),
            dialect_of(self.version),
            operations,
            *self._digests(),
            previous=None if self.previous is None else read_file(self.previous),
            cache_folder="" if self.cache is None else str(self.cache),
            cache_is_older=self._cache_is_older(),
            mixed=self.mixed,
        )
        logged = () if content is None else parse_log(content, str(self.log)).diagnostics
        found = (*lint(read_file(self.file), context), *logged)
        wrong = [item for item in found if item.severity.value == "error"]
        verdict = f"{len(wrong)} errors, {len(found) - len(wrong)} warnings."
        page = Page(str(self.file), (findings_block(found),) if found else (), verdict, tone_of(found))
        document = {"file": str(self.file), "findings": rows_of(found)}
        return Answer(document, page, ExitCode.NO if wrong else ExitCode.DONE)

    def _digests(self) -> tuple[str, str]:
        """Return the digests of the model that the file was made for and of the one it is used with."""
        if self.plan is None and self.model is None:
            return "", ""
        if self.plan is None or self.model is None:
            raise DovetailError("--plan and --model are given together.", hint="The plan knows its model by a digest.")
        import dovetail

        return dovetail.load_plan(self.plan).graph_digest, self.load(self.model).digest

    def _cache_is_older(self) -> bool:
        if self.cache is None:
            return False
        try:
            made = [path.stat().st_mtime_ns for path in self.cache.iterdir() if path.suffix == ".nnc"]
            return min(made, default=self.file.stat().st_mtime_ns) < self.file.stat().st_mtime_ns
        except OSError as error:
            raise DovetailError(
                f"{error.filename}: cannot be read: {error.strerror}.", hint="Check the path."
            ) from error
