"""dovetail report: one file to look at and to hand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.report.view import RunView


@dataclass(frozen=True, kw_only=True)
class ReportVerb(Verb):
    """Write a report of one or several searches as one HTML file, which needs no network; or as Markdown or text.

    It has the verdict, the network to walk through (coloured by device, precision, noise or time), the front of plans,
    where the time goes, and every table. Several runs stand beside each other, with what they place otherwise.
    `-o report.md` and `-o report.txt` write the tables alone. --json prints all that is shown, --schema its schema.
    """

    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of 'dovetail tune' or 'demo'.", show_default=False),
    ] = field(default_factory=list)
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where it goes: .html, .md or .txt.")
    ] = Path("report.html")
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of what --json prints, and do nothing.")
    ] = False

    def instead(self) -> str | None:
        from dovetail.report.schema import schema_text

        return schema_text() if self.schema else None

    def run(self, screen: Screen) -> Answer:
        from dovetail.files import check_ours, write_file
        from dovetail.report import Facts, Page, Table
        from dovetail.report.figures import bytes_text
        from dovetail.report.page import left, wrapped
        from dovetail.report.schema import runs_document
        from dovetail.report.view import load_view

        if not self.runs:
            raise DovetailError("no run is given.", hint="Give the folder that 'dovetail tune' wrote.")
        form = self._form()
        check_ours(self.output)
        views = [load_view(path) for path in self.runs]
        text = form(views)
        write_file(self.output, text)
        size = len(text.encode())
        rows = tuple((view.name, view.page.verdict) for view in views)
        files = Facts("Files", (("report", f"{self.output} ({bytes_text(size)})"),))
        page = Page("Report", (Table("", (left("run"), wrapped("verdict")), rows), files))
        return Answer(runs_document(views, str(self.output), size), page)

    def _form(self) -> Callable[[Sequence[RunView]], str]:
        """Return what makes the report in the form that the ending of the file asks for."""
        from dovetail.report.markdown import runs_markdown
        from dovetail.report.site import runs_html
        from dovetail.report.text import page_text

        forms: dict[str, Callable[[Sequence[RunView]], str]] = {
            ".html": runs_html,
            ".htm": runs_html,
            ".md": runs_markdown,
            ".markdown": runs_markdown,
            ".txt": lambda views: "\n".join(page_text(view.page) for view in views),
        }
        form = forms.get(self.output.suffix.lower())
        if form is None:
            raise DovetailError(
                f"{self.output}: no form of a report has this ending.", hint="Take .html, .md or .txt.", option="output"
            )
        return form
