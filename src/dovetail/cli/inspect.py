"""dovetail inspect (load): what a model is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.options import ModelVerb, read_ranges
from dovetail.cli.render import Screen
from dovetail.cli.snippet import path_text, program
from dovetail.cli.verb import Answer


@dataclass(frozen=True, kw_only=True)
class Inspect(ModelVerb):
    """Say what a model is, and what looks suspicious about it.

    Inputs, outputs, operators, size and quantisation. The model is shown in normal form, which is what plans and ranges
    are made for. With --ranges, the ranges of activations are judged too. `dovetail load` is the same command.
    """

    ranges: Annotated[
        Path | None, typer.Option("--ranges", metavar="FILE", help="Ranges to judge (dovetail calibrate).")
    ] = None

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.report import model_page

        graph = self.graph()
        ranges = None if self.ranges is None else read_ranges(self.ranges, graph)
        summary = dovetail.describe_graph(graph, ranges)
        return Answer(summary.document, model_page(summary))

    def python(self) -> str:
        ranges = "" if self.ranges is None else f", dovetail.load_ranges({path_text(self.ranges)})"
        return program(self.graph_lines(), f"print(dovetail.describe_graph(graph{ranges}))")
