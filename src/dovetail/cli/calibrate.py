"""dovetail calibrate: the ranges of every tensor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.options import CalibrationVerb, DataVerb, ModelVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.files import check_ours, write_file


@dataclass(frozen=True, kw_only=True)
class Calibrate(CalibrationVerb, DataVerb, ModelVerb):
    """Find the range of every tensor by running the float model over samples."""

    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the ranges go.")] = Path(
        "ranges.json"
    )
    limit: Annotated[
        int | None, typer.Option("--samples", metavar="N", help="Use only the first N samples.", show_default=False)
    ] = None

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.report import Facts, Page

        check_ours(self.output)
        options = self.calibration_options()
        graph = self.graph()
        samples = self.open(self.data, dovetail.specs_of(graph), limit=self.limit)
        with screen.progress("calibrating", samples.count) as bar:
            ranges = dovetail.calibrate(graph, samples, options, bar.advance).ranges
        write_file(self.output, ranges.to_json())
        facts = (
            ("file", str(self.output)),
            ("method", ranges.method),
            ("samples", str(ranges.samples)),
            ("tensors", str(len(ranges.tensors))),
            ("digest", ranges.digest),
        )
        document = {
            "output": str(self.output),
            "method": ranges.method,
            "samples": ranges.samples,
            "tensors": len(ranges.tensors),
            "graph": ranges.graph_digest,
            "digest": ranges.digest,
        }
        return Answer(document, Page(f"Ranges of '{self.model.name}'", (Facts("", facts),)))
