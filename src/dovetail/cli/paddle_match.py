"""dovetail paddle match: which operators subgraph.txt takes off the NPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.files import read_file
from dovetail.cli.format_options import VersionOption
from dovetail.cli.render import Screen
from dovetail.cli.snippet import path_text, program
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class PaddleMatch(Verb):
    """Say which operators the rules of subgraph.txt match, exactly as Paddle Lite does, and what that cuts."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="subgraph.txt.", show_default=False)]
    log: Annotated[Path, typer.Option("--log", metavar="FILE", help="Log of a run (log.txt).")]
    version: VersionOption = ""

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.paddle import estimate_subgraphs, load_rules, match_all
        from dovetail.formats.paddle.formats import dialect_of, operations_of
        from dovetail.formats.paddle.operators import TIMVX_OPERATORS
        from dovetail.formats.text import decode
        from dovetail.report import Facts, Page, Table
        from dovetail.report.page import flexible, right

        operations = operations_of(read_file(self.log), str(self.log))
        rules = load_rules(decode(read_file(self.file), str(self.file)), dialect_of(self.version))
        matched = match_all(rules, operations)
        off = {id(op) for op in matched}
        able = [op.op_type in TIMVX_OPERATORS for op in operations]
        before = estimate_subgraphs(operations, able)
        after = estimate_subgraphs(
            operations, [ok and id(op) not in off for ok, op in zip(able, operations, strict=True)]
        )
        rows = tuple((str(op.line), op.text) for op in matched)
        facts = (
            ("operators", f"{len(matched)} of {len(operations)} matched by {len(rules)} rules"),
            ("NPU subgraphs", f"{before.subgraphs} -> {after.subgraphs}"),
            ("tensors that cross", f"{before.boundary_tensors} -> {after.boundary_tensors}"),
        )
        document = {
            "matched": [{"line": op.line, "operator": op.text} for op in matched],
            "operators": len(operations),
            "rules": len(rules),
            "subgraphs": {"before": before.subgraphs, "after": after.subgraphs},
            "boundary_tensors": {"before": before.boundary_tensors, "after": after.boundary_tensors},
        }
        blocks = (Facts("", facts), Table("On the CPU", (right("line of the log"), flexible("operator")), rows))
        return Answer(document, Page(str(self.file), blocks))

    def python(self) -> str:
        return program(
            "from dovetail.formats.paddle import load_rules, match_all",
            "from dovetail.formats.paddle.formats import dialect_of, operations_of",
            "",
            f"operations = operations_of({path_text(self.log)}.read_bytes(), {str(self.log)!r})",
            f"rules = load_rules({path_text(self.file)}.read_text(), dialect_of({self.version!r}))",
            "for op in match_all(rules, operations):",
            "    print(op.text)",
        )
