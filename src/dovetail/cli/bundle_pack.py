"""dovetail bundle pack: a bundle as one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class BundlePack(Verb):
    """Write a bundle as one file (.dvb), to send or to keep; the same bundle gives the same bytes."""

    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle (dovetail compile).", show_default=False)]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A .dvb file.")]

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.bundle import export_bundle
        from dovetail.report import Facts, Page

        export_bundle(dovetail.load_bundle(self.bundle), self.output)
        size = self.output.stat().st_size
        facts = (("file", str(self.output)), ("size", f"{size} bytes"))
        document = {"output": str(self.output), "size_bytes": size}
        return Answer(document, Page(f"Bundle {self.bundle} as one file", (Facts("", facts),)))
