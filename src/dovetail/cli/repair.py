"""dovetail repair: heal a model without more bits, and write it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.fitting import FitProgress
from dovetail.cli.options import CalibrationVerb, DataVerb, DecisionsOption, LabelsOption, ModelVerb
from dovetail.cli.render import Screen
from dovetail.cli.tune import RepairOption, path_text
from dovetail.cli.verb import Answer, ExitCode
from dovetail.files import check_ours, write_file

if TYPE_CHECKING:
    from dovetail.fit import FitRequest


@dataclass(frozen=True, kw_only=True)
class RepairVerb(CalibrationVerb, DataVerb, ModelVerb):
    """Heal a model without more bits: repairs that make everything at low precision better, each tried.

    The healed model is written as float ONNX: another tool's 8 bits fare better with it too. What only a plan can hold
    (corrected biases, tighter ranges) is left to tune. Exit code 1 says that no repair of the model itself helps; then
    nothing is written.
    """

    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the healed model goes.")] = Path(
        "healed.onnx"
    )
    target: Annotated[str, typer.Option("--target", metavar="TARGET", help="Where the network should run.")] = (
        "vsi:v853"
    )
    low: Annotated[
        str | None,
        typer.Option(
            "--low",
            metavar="PRECISION",
            help="What it is healed for; i8pc or u8, as the target prefers.",
            show_default=False,
        ),
    ] = None
    repair: RepairOption = "data"
    labels: LabelsOption = None
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric", metavar="NAME", help="Metric; top1 with labels, decisions without.", show_default=False
        ),
    ] = None
    decisions: DecisionsOption = None
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Go on with fewer than 10 samples, which are too few for an answer.")
    ] = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.exporters.onnx import to_onnx
        from dovetail.fit import heal
        from dovetail.repair import Exactness, claims
        from dovetail.report import Facts, Page, healing_block, plain_data

        check_ours(self.output)
        with screen.progress("loading") as bar:
            outcome = heal(self.request(), FitProgress(bar))
        repaired, healing = outcome.repaired, outcome.healing
        written = any(claim is not Exactness.QUANTISED for claim in claims(repaired.records))
        if written:
            write_file(self.output, to_onnx(repaired.graph).SerializeToString())
        document = {
            "output": str(self.output) if written else None,
            "healing": plain_data(healing),
            "graph": repaired.graph.digest,
        }
        blocks = (healing_block(healing, outcome.low), Facts("", (("file", str(self.output)),) if written else ()))
        page = Page(f"Repairs of '{self.model.name}'", blocks if written else blocks[:1])
        return Answer(document, page, ExitCode.DONE if written else ExitCode.NO)

    def request(self) -> FitRequest:
        """Return what the library is asked."""
        from dovetail.fit import CalibrationRequest, FitRequest

        return FitRequest(
            model=str(self.model),
            data=self.data,
            target=self.target,
            load=self.load_options(),
            labels=path_text(self.labels),
            preprocess=path_text(self.preprocess),
            metric=self.metric,
            decisions=self.decisions,
            anyway=self.anyway,
            repairs=self.repair,
            low=self.low,
            calibration=CalibrationRequest(None, None, self.calibration_options()),
        )
