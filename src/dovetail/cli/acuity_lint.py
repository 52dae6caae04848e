"""dovetail acuity lint: what Acuity would silently ignore."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.format_options import findings_block, rows_of, tone_of
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode, Verb
from dovetail.files import read_file


@dataclass(frozen=True, kw_only=True)
class AcuityLint(Verb):
    """Say what is wrong in a .quantize table or an inputmeta.yml, and what Acuity would silently ignore.

    One unknown layer makes Acuity drop the whole hybrid list without a word: give the network with --network.
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", help="X.quantize, or X_inputmeta.yml.", show_default=False)]
    network: Annotated[
        Path | None, typer.Option("--network", metavar="FILE", help="Network (X.json), to check names of layers.")
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.acuity import lint_inputmeta
        from dovetail.formats.acuity.lint import lint_table
        from dovetail.report import Page

        content = read_file(self.file)
        if self._is_inputmeta():
            found = lint_inputmeta(content, str(self.file))
        else:
            found = lint_table(content, None if self.network is None else read_file(self.network), str(self.file))
        wrong = [item for item in found if item.severity.value == "error"]
        verdict = f"{len(wrong)} errors, {len(found) - len(wrong)} warnings."
        page = Page(str(self.file), (findings_block(found),) if found else (), verdict, tone_of(found))
        document = {"file": str(self.file), "findings": rows_of(found)}
        return Answer(document, page, ExitCode.NO if wrong else ExitCode.DONE)

    def _is_inputmeta(self) -> bool:
        return self.file.suffix.lower() in (".yml", ".yaml")
