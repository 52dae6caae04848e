"""dovetail bundle unpack: a bundle from one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class BundleUnpack(Verb):
    """Read a bundle from one file (.dvb) and write its folder; damaged and unsafe files are refused."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="File (dovetail bundle pack).", show_default=False)]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the bundle.")]

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.bundle import import_bundle
        from dovetail.report import Facts, Page

        bundle = import_bundle(self.file)
        dovetail.save_bundle(bundle, self.output)
        backends = [f"{part.backend} {part.backend_version}" for part in bundle.partitions]
        facts = (("folder", str(self.output)), ("made with", ", ".join(dict.fromkeys(backends))))
        document = {"output": str(self.output), "partitions": len(bundle.partitions), "backends": backends}
        return Answer(document, Page(f"Bundle '{bundle.name}'", (Facts("", facts),)))
