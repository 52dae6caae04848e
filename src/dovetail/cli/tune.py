"""dovetail tune: the cheapest placement that meets the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from dovetail.cli.fitting import FitVerb
from dovetail.cli.options import CalibrationVerb, DataVerb, DecisionsOption, LabelsOption, ModelVerb
from dovetail.cli.pricing import PriceVerb
from dovetail.cli.texts import named_values, one_of, split_commas
from dovetail.errors import SearchError

if TYPE_CHECKING:
    from dovetail.fit import FitRequest, PriceRequest, WorkerRequest
    from dovetail.search import VendorCheck


RepairOption = Annotated[
    str,
    typer.Option(
        "--repair",
        metavar="all|data|exact|none|KIND,...",
        help="What may be healed before bits are added: whatever helps, or only what keeps float; kinds by name, or "
        "all,-KIND. A recipe may say it, too.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class WorkersVerb(FitVerb):
    """The options of commands that evaluate plans."""

    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="Evaluate plans in N processes; 0: in this one.")
    ] = 0
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="ADDRESS",
            help="Evaluate plans on a Dask cluster: tcp://host:port, or a scheduler file.",
            show_default=False,
        ),
    ] = None
    resources: Annotated[
        list[str],
        typer.Option("--resource", metavar="NAME=X", help="Only on Dask workers that have this; repeatable: npu=1."),
    ] = field(default_factory=list)
    trial_timeout: Annotated[
        float | None,
        typer.Option(
            "--trial-timeout",
            metavar="S",
            help="A plan that takes longer cannot be tested; needs workers.",
            show_default=False,
        ),
    ] = None
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", help="Try a plan that cannot be tested N times more.")
    ] = 0

    def worker_request(self) -> WorkerRequest:
        """Return what the library is asked."""
        from dovetail.fit import WorkerRequest

        try:
            resources = {
                name: float(amount) for name, amount in named_values("--resource", self.resources, "npu=1").items()
            }
        except ValueError as error:
            raise SearchError(f"--resource: {error}.", hint="For example npu=1.") from error
        return WorkerRequest(self.workers, self.dask, resources, self.trial_timeout, self.retries)


@dataclass(frozen=True, kw_only=True)
class Tune(WorkersVerb, PriceVerb, CalibrationVerb, DataVerb, ModelVerb):
    """Find the cheapest placement that meets the target, and prove it.

    Everything goes into one folder: plan.json, recipe.toml (the plan for you to edit), ranges.json, bundle/,
    result.json, report.txt, report.html (with pictures of what differs) and journal.sqlite. Interrupt it, even with
    kill -9: the same command goes on where it was and repeats no evaluation. Without --calib the ranges come from the
    part of --data that the search may see.

    With --on the search goes by exact simulation, and the answer then runs on a board: what that gives on the hold-out
    has to meet the goal too, and the report says what it gave, on which backends and how fast. A board that refuses or
    is lost is an error (code 2) that costs nothing of the search: the same command asks it again.

    With --on SCHEDULER all boards of the farm there that fit (dovetail farm) share the hold-out, and the report says
    which gave what; with --dask too, the search goes to workers that offer sim.

    With --for every plan that is tried is one that the toolchain's file can say and its reader obeys: units are what
    the toolchain has as one, precisions those that it has words for. 'dovetail export' then writes plan.json unchanged.
    Nothing is repaired then, as the toolchain reads the model as it is, and units without fault stay on the NPU.
    """

    sections: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "What matters first": ("target", "data", "max_drop"),
        "The task": ("metric", "labels", "preprocess", "decisions", "output", "overwrite"),
        "On a board": ("on", "board_runs", "backend"),
        "What counts as an answer": (
            "policy",
            "min_score",
            "search_seconds",
            "holdout",
            "seed",
            "anyway",
            "verify",
            "confirm",
        ),
        "Where layers may go": ("low", "raises", "repair", "migrate", "recipe", "for_", "listing"),
        "Ranges": ("calib", "calib_limit", "method", "percentile"),
        "Prices": ("costs", "host", "vendor_seconds", "proof_tests"),
        "Many workers": ("workers", "dask", "resources", "trial_timeout", "retries"),
        "Records": ("journal", "log", "show_python"),
    }

    labels: LabelsOption = None
    preprocess: Annotated[
        Path | None,
        typer.Option(
            "--preprocess",
            metavar="FILE|auto",
            help="How images become tensors (TOML); auto, the default for pictures, finds it and writes the file.",
            show_default=False,
        ),
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
            help="Metric, or file.py:function; top1 with labels, decisions without.",
            show_default=False,
        ),
    ] = None
    decisions: DecisionsOption = None
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Go on with fewer than 10 samples, which are too few for an answer.")
    ] = False
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
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TOOLCHAIN",
            help="Only plans that a toolchain's file can say: acuity, onnxruntime, paddle, openvino, tflite, rknn, ...",
            show_default=False,
        ),
    ] = None
    listing: Annotated[
        Path | None,
        typer.Option(
            "--listing",
            metavar="FILE",
            help="That toolchain's own list of the network: log.txt, X.json ...",
            show_default=False,
        ),
    ] = None
    raises: Annotated[
        list[str],
        typer.Option(
            "--raise", metavar="PRECISION", help="What culprits are raised to, cheapest first; then comes the CPU."
        ),
    ] = field(default_factory=lambda: ["i16"])
    repair: RepairOption = "all"
    max_drop: Annotated[
        str,
        typer.Option("--max-drop", metavar="DROP", help="Allowed loss: 0.01 of the metric, or 1% of the float score."),
    ] = "1%"
    min_score: Annotated[
        float | None,
        typer.Option("--min-score", metavar="SCORE", help="Least score of the float model too.", show_default=False),
    ] = None
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="WORD",
            help="Which verdicts are a success: likely takes likely met too, sure only met.",
        ),
    ] = "likely"
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
        bool,
        typer.Option(
            "--migrate/--stay", help="Let units without fault leave the NPU where that is cheaper, or keep them on it."
        ),
    ] = True
    proof_tests: Annotated[
        int | None,
        typer.Option(
            "--proof-tests",
            metavar="N",
            help="Test at most N plans more to prove the plan cheapest (default: 240 for up to 60 units, else 60).",
            show_default=False,
        ),
    ] = None
    vendor_seconds: Annotated[
        float,
        typer.Option(
            "--vendor-seconds",
            metavar="S",
            help="Where a vendor's SDK is there, wait so long for its prices of units; 0 goes without.",
        ),
    ] = 20.0
    search_seconds: Annotated[
        float,
        typer.Option(
            "--search-seconds",
            metavar="S",
            help="Answer with the best plan so far after S seconds of evaluating plans; 0: no limit.",
        ),
    ] = 120.0
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
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="BOARD",
            help="Run the answer on a board before it is accepted: grpc://HOST:PORT, grpcs://, a name (board add), "
            "or a farm's Dask scheduler.",
            show_default=False,
        ),
    ] = None
    board_runs: Annotated[
        int, typer.Option("--board-runs", metavar="N", help="How often the board times the answer.")
    ] = 20
    backend: Annotated[
        list[str],
        typer.Option(
            "--backend", metavar="TARGET=NAME", help="Backend of a target in the bundle where several serve it."
        ),
    ] = field(default_factory=list)
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

    def request(self) -> FitRequest:
        from dovetail.data import SplitOptions
        from dovetail.fit import BoardRequest, CalibrationRequest, FitRequest

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
            max_drop=self.max_drop,
            min_score=self.min_score,
            policy=self.policy,
            repairs=self.repair,
            low=self.low,
            toolchain=self.for_,
            listing=path_text(self.listing),
            ladder=split_commas(self.raises),
            recipe=path_text(self.recipe),
            split=SplitOptions(self.holdout, self.seed),
            calibration=CalibrationRequest(self.calib, self.calib_limit, self.calibration_options()),
            price=self._price(),
            workers=self.worker_request(),
            vendor=self._vendor(),
            board=None if self.on is None else BoardRequest(self.on, self.board_runs),
            backends=named_values("--backend", self.backend, "vsi:v853=vsi"),
            search_s=self.search_seconds or None,
            confirm=self.confirm,
            folder=str(self.output),
            overwrite=self.overwrite,
            journal=path_text(self.journal),
            log=path_text(self.log),
        )

    def _price(self) -> PriceRequest:
        from dovetail.fit import PriceRequest

        tables = tuple(map(str, self.costs))
        return PriceRequest(tables, self.host, self.migrate, self.proof_tests, self.vendor_seconds)

    def _vendor(self) -> VendorCheck | None:
        from dovetail.search import VendorCheck

        if self.verify is None:
            return None
        one_of("--verify", self.verify, ["vendor"])
        return VendorCheck()


def path_text(path: Path | None) -> str | None:
    """Return a path as the library is given it."""
    return None if path is None else str(path)
