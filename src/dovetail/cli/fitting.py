"""What the commands around a fit share: they hold a request, print it or ask it, and show the answer."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.loading import ConversionSteps
from dovetail.cli.render import Progress, Screen
from dovetail.cli.verb import Answer, ExitCode, Verb

if TYPE_CHECKING:
    from dovetail.fit import Fit, FitRequest
    from dovetail.report import Block

_ROWS, _LINES = 24, 8
"""Of a table and of a text, at most, on the screen; the report has all."""


@dataclass(frozen=True, kw_only=True)
class FitVerb(Verb):
    """A command that is one request to the library."""

    output: Annotated[
        Path, typer.Option("--output", "--out", "-o", metavar="FOLDER", help="Folder for everything.")
    ] = Path("dovetail-out")
    overwrite: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace what the folder has: another question's answer, files that you edited."
        ),
    ] = False
    show_python: Annotated[
        bool, typer.Option("--show-python", help="Print the same work as a Python program, and do nothing.")
    ] = False

    @abstractmethod
    def request(self) -> FitRequest:
        """Return what the library is asked."""

    def run(self, screen: Screen) -> Answer:
        from dovetail.fit import fit
        from dovetail.report import Facts, report_document, report_page

        with screen.progress("loading") as bar:
            answer = fit(self.request(), FitProgress(bar))
        files = {name: str(path) for name, path in answer.save(self.output).items()}
        page = report_page(answer.report).shortened(_ROWS, _LINES, files["report"])
        blocks = (*self.story(answer), *page.blocks, Facts("Files", tuple(files.items())))
        document = {"model": str(answer.request.model), **report_document(answer.report), "files": files}
        kept = [path for path in files.values() if Path(path).stem.endswith(".new")]
        if kept:
            screen.note(f"edited since, and left as they are: the new ones are {', '.join(kept)}.")
        code = ExitCode.DONE if answer.accepted else ExitCode.NO
        board = answer.report.board
        if board is not None and board.failure:
            code = ExitCode.BAD_INPUT
            screen.complain(
                f"{board.failure} The answer of the search is in {self.output}, not accepted by board '{board.board}': "
                "the same command asks the board again and repeats no evaluation."
            )
        return Answer(document, replace(page, blocks=blocks), code)

    def instead(self) -> str | None:
        return self.program() if self.show_python else None

    def program(self) -> str:
        """Return the same work as a Python program."""
        from dovetail.fit import source_of

        request = self.request()
        source = source_of(request)
        imports = dict.fromkeys(("import dovetail", *source.imports))
        lines = [f"fit = dovetail.fit({source.text})", f"fit.save({str(self.output)!r})", "print(fit)"]
        if request.workers.processes:
            # Their processes import the program again.
            lines = ['if __name__ == "__main__":', indent("\n".join(lines), "    ")]
        return "\n".join((*imports, "", *lines))

    def story(self, answer: Fit) -> tuple[Block, ...]:
        """Return what is said before the report."""
        return ()

    def resume_note(self) -> str:
        return f"the journal is kept in {self.request().journal_path}; the same command goes on from there."


class FitProgress:
    """Shows the stages of a fit."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self.converting = ConversionSteps()

    def stage(self, title: str, total: int | None = None) -> None:
        """A stage begins."""
        self._bar.begin(title, total)

    def advance(self, done: int) -> None:
        """So many steps of the stage are done."""
        self._bar.advance(done)

    def note(self, text: str) -> None:
        """Something was found out that the answer depends on."""
        self._bar.say(text)
