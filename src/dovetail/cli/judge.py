"""dovetail judge: what a target makes of a model that another tool quantised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.boards import BoardVerb
from dovetail.cli.fitting import FitProgress
from dovetail.cli.loading import LoadingVerb
from dovetail.cli.options import DataVerb, DecisionsOption, LabelsOption
from dovetail.cli.pricing import PriceVerb
from dovetail.cli.render import Screen
from dovetail.cli.tune import path_text
from dovetail.cli.verb import Answer, ExitCode

if TYPE_CHECKING:
    from dovetail.fit import JudgeRequest


@dataclass(frozen=True, kw_only=True)
class Judge(PriceVerb, BoardVerb, DataVerb, LoadingVerb):
    """Judge a model that another tool quantised: its score on the target, its price, and what is not honoured.

    MODEL is ONNX with Q/DQ pairs or integer operators, or TFLite. Every node is asked for in the formats of the file.
    What the target refuses is tried with the same values in its own form, then on its nearest grid of at least as many
    bits, and goes to the CPU last. The exit code is 1 when the target loses more than is allowed.
    """

    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A quantised model: .onnx or .tflite.", show_default=False)
    ]
    target: Annotated[str, typer.Option("--target", metavar="TARGET", help="Target that judges it.")] = "vsi:v853"
    float_model: Annotated[
        Path | None,
        typer.Option(
            "--float",
            metavar="MODEL",
            help="The float model that counts as right; else the reals of the file's integers.",
            show_default=False,
        ),
    ] = None
    float_preprocess: Annotated[
        Path | None,
        typer.Option(
            "--float-preprocess", metavar="FILE", help="How images become inputs of --float, where that differs."
        ),
    ] = None
    labels: LabelsOption = None
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Metric, or file.py:function; top1 with labels, else decisions: agreement with float.",
            show_default=False,
        ),
    ] = None
    decisions: DecisionsOption = None
    max_drop: Annotated[
        str, typer.Option("--max-drop", metavar="DROP", help="Allowed loss: 0.01 of the metric, or 1% of float.")
    ] = "1%"
    min_score: Annotated[
        float | None, typer.Option("--min-score", metavar="SCORE", help="Least score on the target.")
    ] = None
    limit: Annotated[
        int | None, typer.Option("--samples", metavar="N", help="Use only the first N samples.", show_default=False)
    ] = None
    float_on_host: Annotated[
        bool, typer.Option("--float-on-cpu", help="Run on the CPU what the file leaves in float.")
    ] = False
    every_node: Annotated[bool, typer.Option("--nodes", help="List every node.")] = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.fit import judge
        from dovetail.report import judgement_document, judgement_page

        with screen.progress("loading") as bar:
            judgement = judge(self.request(), FitProgress(bar))
        code = ExitCode.DONE if judgement.met else ExitCode.NO
        return Answer(judgement_document(judgement), judgement_page(judgement, every_node=self.every_node), code)

    def request(self) -> JudgeRequest:
        """Return what the library is asked."""
        from dovetail.fit import JudgeRequest, PriceSources

        boards = self.boards([self.target])
        return JudgeRequest(
            model=str(self.model),
            data=self.data,
            target=self.target,
            load=self.load_options(),
            float_model=path_text(self.float_model),
            labels=path_text(self.labels),
            preprocess=path_text(self.preprocess),
            float_preprocess=path_text(self.float_preprocess),
            metric=self.metric,
            decisions=self.decisions,
            max_drop=self.max_drop,
            min_score=self.min_score,
            limit=self.limit,
            float_on_host=self.float_on_host,
            price=PriceSources(tuple(map(str, self.costs)), self.host, boards if self.vendor else None),
        )
