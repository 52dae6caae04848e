"""dovetail tune: the cheapest placement that meets the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.crew import CrewVerb
from dovetail.cli.options import CalibrationVerb, DataVerb, ModelVerb, first_samples, one_of, split_commas
from dovetail.cli.pricing import PriceVerb
from dovetail.cli.render import Screen
from dovetail.cli.snippet import path_text, program
from dovetail.cli.tuning import (
    Tuned,
    TuneJob,
    claim_folder,
    ladder_placements,
    low_placement,
    metric_for,
    run_job,
)
from dovetail.cli.verb import Answer, ExitCode, Verb, default_of
from dovetail.errors import SearchError

if TYPE_CHECKING:
    from dovetail.data import SampleSource
    from dovetail.ir import Graph
    from dovetail.search import TuneOptions, VendorCheck


@dataclass(frozen=True, kw_only=True)
class Tune(CrewVerb, PriceVerb, CalibrationVerb, DataVerb, ModelVerb):
    """Find the cheapest placement that meets the target, and prove it.

    Everything goes into one folder: plan.json, recipe.toml (the plan for you to edit), ranges.json, bundle/,
    result.json, report.txt and journal.sqlite. Interrupt it, even with kill -9: the same command goes on where it was
    and repeats no evaluation. Without --calib the ranges come from the part of --data that the search may see.
    """

    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="Labels beside the samples (CSV or JSON).")
    ] = None
    calib: Annotated[
        str | None, typer.Option("--calib", metavar="DATA", help="Other samples for the ranges.", show_default=False)
    ] = None
    calib_limit: Annotated[
        int | None,
        typer.Option("--calib-samples", metavar="N", help="Use only the first N of them.", show_default=False),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Metric, or file.py:function; top1 with labels, top1_agreement without.",
            show_default=False,
        ),
    ] = None
    target: Annotated[str, typer.Option("--target", metavar="TARGET", help="Where the network should run.")] = (
        "vsi:v853"
    )
    low: Annotated[
        str | None,
        typer.Option(
            "--low",
            metavar="PRECISION",
            help="Where the search starts; i8pc or u8, as the target prefers.",
            show_default=False,
        ),
    ] = None
    raises: Annotated[
        list[str],
        typer.Option(
            "--raise", metavar="PRECISION", help="What culprits are raised to, cheapest first; i16, then the CPU."
        ),
    ] = field(default_factory=list)
    max_drop: Annotated[
        str,
        typer.Option("--max-drop", metavar="DROP", help="Allowed loss: 0.01 of the metric, or 1% of the float score."),
    ] = "1%"
    min_score: Annotated[
        float | None,
        typer.Option("--min-score", metavar="SCORE", help="Least score of the float model too.", show_default=False),
    ] = None
    confident: Annotated[
        bool,
        typer.Option("--confident", help="Accept only if the 95 % bound of the loss on the hold-out is allowed too."),
    ] = False
    recipe: Annotated[
        Path | None,
        typer.Option(
            "--recipe",
            metavar="FILE",
            help="Recipe (TOML) whose rules pin nodes and whose limits bound the plan.",
            show_default=False,
        ),
    ] = None
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Let units without fault leave the NPU where that is cheaper.")
    ] = False
    proof_tests: Annotated[
        int | None,
        typer.Option(
            "--proof-tests",
            metavar="N",
            help="Test at most N plans more to prove the plan cheapest (default: 240 for up to 60 units, else 60).",
            show_default=False,
        ),
    ] = None
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            metavar="SHARE",
            help="Share of the latency for raising more where samples are too few to be sure; 0 for none.",
        ),
    ] = 0.1
    holdout: Annotated[
        float, typer.Option("--holdout", metavar="SHARE", help="Share of the samples that the search never sees.")
    ] = 0.4
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the split.")] = 0
    verify: Annotated[
        str | None,
        typer.Option(
            "--verify",
            metavar="vendor",
            help="Run a plan on the vendor's own simulator too, on 4 samples, before it is accepted.",
            show_default=False,
        ),
    ] = None
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="Journal; journal.sqlite in the folder.", show_default=False),
    ] = None
    confirm: Annotated[
        int, typer.Option("--confirm", metavar="N", help="Evaluate the plan and its evidence N times more in the end.")
    ] = 0
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Log for 'dovetail replay' (JSON lines).", show_default=False),
    ] = None
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for everything.")] = Path(
        "dovetail-out"
    )

    def run(self, screen: Screen) -> Answer:
        return answer(run_job(self.job(), screen), Path(self.model))

    def job(self, claim: bool = True) -> TuneJob:
        """Open and check everything that the search needs, then claim the folder."""
        import dovetail
        from dovetail.data import SplitOptions, split_samples

        goal = dovetail.parse_goal(self.max_drop, self.min_score, confident=self.confident)
        options = self._options(claim)
        low = low_placement(self.target, self.low)
        ladder = ladder_placements(self.target, self._raises())
        for place in ladder:
            dovetail.find_target(place.target)
        wishes = None if self.recipe is None else dovetail.load_recipe(self.recipe)
        costs = dovetail.CostOptions(
            self.tables(), self.host_facts(), self.migrate, self.proof_tests, margin=self.margin
        )
        calibration_options = self.calibration_options()
        source = self.source_graph()
        lifted = dovetail.dequantize(source) if dovetail.is_quantized(source) else None
        graph = source if lifted is None else lifted.graph
        samples = self.open(self.data, dovetail.specs_of(graph), self.labels)
        metric, identity = metric_for(self.metric, samples)
        splits = split_samples(samples, SplitOptions(self.holdout, self.seed))
        calibration_samples = self._calibration_samples(graph, samples.subset(splits.search))
        if claim:
            claim_folder(self.output, self._question(graph, str(low)))
            options = replace(options, fanout=self.fan_out())
        return TuneJob(
            graph=graph,
            calibration_samples=calibration_samples,
            calibration_options=calibration_options,
            samples=samples,
            splits=splits,
            metric=metric,
            metric_identity=identity,
            goal=goal,
            low=low,
            ladder=ladder,
            options=options,
            out=self.output,
            wishes=wishes,
            costs=costs,
            lifted=lifted,
        )

    def resume_note(self) -> str:
        return f"the journal is kept in {self._journal()}; the same command goes on from there."

    def _options(self, claim: bool) -> TuneOptions:
        import dovetail

        if self.confirm < 0:
            raise SearchError("--confirm is 0 or more.")
        return dovetail.TuneOptions(
            journal=self._journal() if claim else None,
            confirm=self.confirm,
            log=self.log if claim else None,
            log_header=self._arguments(),
            vendor=self._vendor(),
        )

    def _arguments(self) -> Mapping[str, object]:
        """Return the options that the answer depends on; files by their full path."""
        skipped = {item.name for kind in (Verb, CrewVerb) for item in fields(kind)} | {"output", "log", "journal"}
        found: dict[str, object] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in skipped or value == default_of(item):
                continue
            if isinstance(value, Path) or item.name in ("data", "calib"):
                value = str(Path(str(value)).absolute()) if Path(str(value)).exists() else str(value)
            elif isinstance(value, list):
                value = [str(Path(one).absolute()) if isinstance(one, Path) else one for one in value]
            found[item.name] = value
        return found

    def _raises(self) -> tuple[str, ...]:
        return split_commas(self.raises) or ("i16",)

    def _journal(self) -> Path:
        return self.journal if self.journal is not None else self.output / "journal.sqlite"

    def _vendor(self) -> VendorCheck | None:
        from dovetail.backend.registry import backend
        from dovetail.search import VendorCheck

        if self.verify is None:
            return None
        one_of("--verify", self.verify, ["vendor"])
        backend("vsi")
        return VendorCheck("vsi")

    def _question(self, graph: Graph, low: str) -> Mapping[str, object]:
        return {
            "model": str(self.model),
            "graph": graph.digest,
            "data": self.data,
            "low": low,
            "max_drop": self.max_drop,
        }

    def _calibration_samples(self, graph: Graph, searched: SampleSource) -> SampleSource:
        import dovetail

        source = searched if self.calib is None else self.open(self.calib, dovetail.specs_of(graph))
        return first_samples(source, self.calib_limit)

    def python(self) -> str:
        limited = "" if self.calib_limit is None else f".subset(range({self.calib_limit}))"
        if self.calib is not None:
            calib = self.sample_lines("calib", self.calib, "specs")
        else:
            calib = ("calib = samples.subset(splits.search)",)
        metric = self.metric if self.metric is not None else "top1"
        ladder = ", ".join(
            f"dovetail.parse_placement({str(place)!r})" for place in ladder_placements(self.target, self._raises())
        )
        log = "None" if self.log is None else path_text(self.log)
        wishes = "None" if self.recipe is None else f"dovetail.load_recipe({path_text(self.recipe)})"
        return program(
            () if self.verify is None else ("from dovetail.search import VendorCheck", ""),
            self.load_lines(),
            "lifted = dovetail.dequantize(graph) if dovetail.is_quantized(graph) else None",
            "graph = graph if lifted is None else lifted.graph",
            "specs = dovetail.specs_of(graph)",
            self.sample_lines("samples", self.data, "specs", self.labels),
            "from dovetail.data import SplitOptions, split_samples",
            "",
            f"splits = split_samples(samples, SplitOptions({self.holdout!r}, {self.seed!r}))",
            calib,
            self.calibration_lines(),
            f"calibration = dovetail.calibrate(graph, calib{limited}, options)",
            "calibration = calibration if lifted is None else lifted.refine(calibration)",
            f"out = {path_text(self.output)}",
            "out.mkdir(parents=True, exist_ok=True)",
            self.host_lines(),
            self.fan_out_lines(),
            "request = dovetail.TuneRequest(",
            "    graph=graph,",
            "    calibration=calibration,",
            "    samples=samples,",
            "    splits=splits,",
            f"    metric=dovetail.load_metric({metric!r}),",
            f"    goal=dovetail.parse_goal({self.max_drop!r}, {self.min_score!r}, confident={self.confident!r}),",
            f"    low=dovetail.parse_placement({str(low_placement(self.target, self.low))!r}),",
            f"    ladder=({ladder},),",
            f"    wishes={wishes},",
            "    costs=dovetail.CostOptions(",
            f"        {self.table_list()}, host, {self.migrate!r}, {self.proof_tests!r}, margin={self.margin!r}",
            "    ),",
            "    options=dovetail.TuneOptions(",
            f"        journal={path_text(self._journal())},",
            f"        confirm={self.confirm!r}, log={log}, fanout=fanout,"
            + ("" if self.verify is None else " vendor=VendorCheck('vsi'),"),
            "    ),",
            ")",
            "result = dovetail.tune(request)",
            "partitioned = dovetail.partition(dovetail.quantize(graph, result.plan, calibration.ranges))",
            "bundle = dovetail.predict_partitions(dovetail.compile_model(partitioned), graph)",
            'dovetail.save_bundle(bundle, out / "bundle")',
            'result.plan.save(out / "plan.json")',
            f"report = dovetail.make_report(result, partitioned, {str(self.model)!r})",
            "print(dovetail.page_text(dovetail.report_page(report)))",
        )


def answer(tuned: Tuned, model: Path) -> Answer:
    """Return what to say about a finished search."""
    from dovetail.report import Facts, report_document, report_page

    page = report_page(tuned.report)
    files = Facts("Files", tuple((name, str(path)) for name, path in tuned.files.items()))
    document = {
        "model": str(model),
        **report_document(tuned.report),
        "files": {name: str(path) for name, path in tuned.files.items()},
    }
    code = ExitCode.DONE if tuned.result.accepted else ExitCode.NO
    return Answer(document, replace(page, blocks=(*page.blocks, files)), code)
