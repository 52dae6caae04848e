"""dovetail paddle fix: repair subgraph.txt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.format_options import ReplaceOption
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.files import check_ours, read_file, write_file


@dataclass(frozen=True, kw_only=True)
class PaddleFix(Verb):
    """Repair what can be repaired in subgraph.txt without knowing what was meant: findings E01 to E05, E08 to E10."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="subgraph.txt.", show_default=False)]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the repaired file goes.")]
    replace: ReplaceOption = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.paddle import fix
        from dovetail.formats.text import MAX_FILE_BYTES
        from dovetail.report import Facts, Page

        if not self.replace:
            check_ours(self.output)
        before = read_file(self.file, MAX_FILE_BYTES).decode("utf-8", "replace")
        after = fix(before)
        write_file(self.output, after, replace=self.replace)
        rules = sum(1 for line in after.splitlines() if line)
        facts = (("file", str(self.output)), ("rules", str(rules)), ("changed", "no" if before == after else "yes"))
        document = {"output": str(self.output), "rules": rules, "changed": before != after}
        return Answer(document, Page(f"Repaired {self.file}", (Facts("", facts),)))
