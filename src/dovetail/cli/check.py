"""dovetail check: a placement in continuous integration."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.fitting import FitProgress
from dovetail.cli.loading import LoadingVerb
from dovetail.cli.options import DataVerb, DecisionsOption, LabelsOption, RangesBesideOption
from dovetail.cli.pricing import PriceVerb
from dovetail.cli.render import Screen
from dovetail.cli.texts import one_of, split_commas
from dovetail.cli.tune import path_text
from dovetail.cli.verb import Answer, ExitCode

if TYPE_CHECKING:
    from dovetail.fit.check import CheckRequest
    from dovetail.report.findings import CheckResult


_PLAN = "plan.json"


@dataclass(frozen=True, kw_only=True)
class CheckVerb(PriceVerb, DataVerb, LoadingVerb):
    """Check a plan of `dovetail tune` again: in CI, after a change of the model, the data, the plan or Dovetail.

    The plan is evaluated in its target's exact arithmetic and held to the run.json beside it: the model, where units
    are, repairs, the goal, and, on the data of the search, the score and the integers; the latency is predicted again.
    The exit code is 1 when something changed for the worse; the answer says what. Without run.json only the goal
    counts.
    """

    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="plan.json of 'dovetail tune', or its folder.", show_default=False)
    ]
    model: Annotated[Path, typer.Option("--model", metavar="MODEL", help="Model as it is now.", show_default=False)]
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TARGET", help="Check on this target; the plan's own.", show_default=False),
    ] = None
    ranges: RangesBesideOption = None
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="What was promised; run.json beside.", show_default=False),
    ] = None
    labels: LabelsOption = None
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric", metavar="NAME", help="Metric, or file.py:function; the recorded one.", show_default=False
        ),
    ] = None
    decisions: DecisionsOption = None
    max_drop: Annotated[
        str | None,
        typer.Option("--max-drop", metavar="DROP", help="Allowed loss; the recorded one.", show_default=False),
    ] = None
    min_score: Annotated[
        float | None, typer.Option("--min-score", metavar="SCORE", help="Least score; the recorded one.")
    ] = None
    allow: Annotated[
        list[str],
        typer.Option(
            "--allow",
            metavar="CHECK",
            help="This may change: model, placement, repair, score, latency, integers; repeatable.",
        ),
    ] = field(default_factory=list)
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML too.")] = None
    sarif: Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 too.")] = None
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown for a pull request too.")
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.fit.check import check_plan
        from dovetail.report.findings import check_document, check_page

        request = self.request()
        with screen.progress("loading") as bar:
            result = check_plan(request, FitProgress(bar))
        self._write(result)
        return Answer(check_document(result), check_page(result), ExitCode.NO if result.failed else ExitCode.DONE)

    def request(self) -> CheckRequest:
        """Return what the library is asked."""
        from dovetail.fit.check import CheckRequest
        from dovetail.fit.request import PriceRequest
        from dovetail.report.findings import Subject

        names = [item.value for item in Subject]
        allowed = frozenset(Subject(one_of("--allow", name, names)) for name in split_commas(self.allow))
        return CheckRequest(
            plan=self.plan / _PLAN if self.plan.is_dir() else self.plan,
            model=self.model,
            data=self.data,
            load=self.announced_options(),
            target=self.target,
            ranges=self.ranges,
            record=self.record,
            labels=self.labels,
            preprocess=path_text(self.preprocess),
            metric=self.metric,
            decisions=self.decisions,
            max_drop=self.max_drop,
            min_score=self.min_score,
            price=PriceRequest(tuple(map(str, self.costs)), self.host),
            allowed=allowed,
        )

    def _write(self, result: CheckResult) -> None:
        """Write the files that were asked for; what an earlier check wrote there gives way."""
        from dovetail import __version__
        from dovetail.files import write_file
        from dovetail.report.findings import check_junit, check_markdown, check_sarif

        if self.junit is not None:
            write_file(self.junit, check_junit(result))
        if self.sarif is not None:
            write_file(self.sarif, check_sarif(result, __version__))
        if self.markdown is not None:
            write_file(self.markdown, check_markdown(result))
