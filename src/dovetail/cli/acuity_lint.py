"""dovetail acuity lint: what Acuity would silently ignore."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.format_options import findings_block, rows_of, tone_of
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode, Verb
from dovetail.errors import FormatError
from dovetail.files import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dovetail.formats import Diagnostic

_NO_TEXT, _OTHER = "NOT_TEXT", "SHAPE"


@dataclass(frozen=True, kw_only=True)
class AcuityLint(Verb):
    """Say what is wrong in a .quantize table, inputmeta or postprocess file, and what Acuity would silently ignore.

    One unknown layer makes Acuity drop the whole hybrid list without a word: give the network with --network. What is
    no such file at all, an empty one among them, is bad input (exit code 2).
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", help="X.quantize, or a .yml file.", show_default=False)]
    network: Annotated[
        Path | None, typer.Option("--network", metavar="FILE", help="Network (X.json), to check names of layers.")
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.report import Page

        found = self._findings()
        _refuse_other_files(found)
        wrong = [item for item in found if item.severity.value == "error"]
        verdict = f"{len(wrong)} errors, {len(found) - len(wrong)} warnings."
        page = Page(str(self.file), (findings_block(found),) if found else (), verdict, tone_of(found))
        document = {"file": str(self.file), "findings": rows_of(found)}
        return Answer(document, page, ExitCode.NO if wrong else ExitCode.DONE)

    def _findings(self) -> tuple[Diagnostic, ...]:
        from dovetail.formats.acuity import lint_inputmeta, lint_postprocess, read_network
        from dovetail.formats.acuity.lint import lint_table
        from dovetail.formats.acuity.postprocess import is_postprocess

        content, path = read_file(self.file), str(self.file)
        network = None if self.network is None else read_file(self.network)
        if self.file.suffix.lower() not in (".yml", ".yaml"):
            return lint_table(content, network, path)
        if not is_postprocess(content):
            return lint_inputmeta(content, path)
        layers = None if network is None else read_network(network, str(self.network)).layers
        return lint_postprocess(content, path, layers)


def _refuse_other_files(found: Sequence[Diagnostic]) -> None:
    """Raise FormatError where a file is not of this kind at all: there is nothing in it to be right or wrong."""
    for item in found:
        if item.code == _NO_TEXT or (item.code == _OTHER and item.line == 0):
            hint = item.hint or "Give an X.quantize or an X_inputmeta.yml of Acuity."
            raise FormatError(item.message, path=item.path, line=item.line, code=item.code, hint=hint)
