"""dovetail bundle onnx: a bundle as one ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.files import check_ours, write_file


@dataclass(frozen=True, kw_only=True)
class BundleOnnx(Verb):
    """Write a bundle as one ONNX file that plain ONNX Runtime runs.

    What an execution provider compiled sits in EPContext nodes and needs that provider; all else is plain operators.
    """

    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle (dovetail compile).", show_default=False)]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A .onnx file.")]

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.exporters.epcontext import context_sources, to_epcontext
        from dovetail.report import Facts, Page

        check_ours(self.output)
        model = to_epcontext(dovetail.load_bundle(self.bundle))
        write_file(self.output, model.SerializeToString())
        sources = context_sources(model)
        facts = (
            ("file", str(self.output)),
            ("nodes", str(len(model.graph.node))),
            ("needs the providers", ", ".join(sources) or "none but the CPU"),
        )
        document = {"output": str(self.output), "nodes": len(model.graph.node), "providers": list(sources)}
        return Answer(document, Page(f"Bundle {self.bundle} as ONNX", (Facts("", facts),)))
