"""dovetail paddle from-log: the operators of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.format_options import ReplaceOption, findings_block, rows_of
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode, Verb
from dovetail.errors import DovetailError, FormatError
from dovetail.files import check_ours, write_file

if TYPE_CHECKING:
    from dovetail.formats.paddle import Log, Paragraph


@dataclass(frozen=True, kw_only=True)
class PaddleFromLog(Verb):
    """Read the operators of a run from its log, with their placement, and write them as subgraph.txt.

    The file lists every operator: all on the CPU, the first step of a bisection. The last paragraph of the log counts.
    A log without operators is bad input (exit code 2).
    """

    log: Annotated[Path, typer.Argument(metavar="LOG", help="Log of a run (log.txt).", show_default=False)]
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the file goes; none if not given.")
    ] = None
    paragraph: Annotated[
        int, typer.Option("--paragraph", metavar="N", help="Paragraph of the log, from 0; -1 is the last.")
    ] = -1
    replace: ReplaceOption = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.paddle import Where, write_rules
        from dovetail.report import Facts, Page

        if self.output is not None and not self.replace:
            check_ours(self.output)
        log = self._read()
        paragraph = self._chosen(log)
        operations = paragraph.operations
        if self.output is not None:
            write_file(self.output, write_rules(operations, operations, whole_types=True), replace=self.replace)
        where = Counter(op.where for op in operations)
        document = {
            "log": str(self.log),
            "paragraphs": len(log.paragraphs),
            "operators": [
                {"operator": op.text, "where": op.where.value, "subgraph": op.cluster, "line": op.line}
                for op in operations
            ],
            "truncated": paragraph.truncated,
            "noise": paragraph.noise,
            "findings": rows_of(log.diagnostics),
        }
        facts = (
            ("paragraphs", str(len(log.paragraphs))),
            ("operators", str(len(operations))),
            ("on the NPU", f"{where[Where.NPU]} ({where[Where.UNKNOWN]} unknown)"),
            ("whole", "no" if paragraph.truncated else "yes"),
        )
        blocks = (Facts("", facts), *((findings_block(log.diagnostics),) if log.diagnostics else ()))
        return Answer(document, Page(str(self.log), blocks), ExitCode.DONE if operations else ExitCode.NO)

    def _read(self) -> Log:
        from dovetail.formats.paddle import parse_log

        try:
            with self.log.open("rb") as stream:
                return parse_log(stream, str(self.log))
        except OSError as error:
            raise DovetailError(f"{self.log}: cannot be read: {error.strerror}.", hint="Check the path.") from error

    def _chosen(self, log: Log) -> Paragraph:
        if not log.paragraphs:
            why = next((item for item in log.diagnostics if item.code == "LOG_EMPTY"), None)
            message = "there are no operators in it." if why is None else why.message
            hint = None if why is None else why.hint
            raise FormatError(message, path=str(self.log), line=0, code="LOG_EMPTY", hint=hint)
        if not -len(log.paragraphs) <= self.paragraph < len(log.paragraphs):
            raise DovetailError(f"--paragraph {self.paragraph}: the log has {len(log.paragraphs)}.")
        return log.paragraphs[self.paragraph]
