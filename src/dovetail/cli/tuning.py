"""The chain behind tune and demo: load, normalise, calibrate, tune, compile, and write everything into one folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli.files import write_file
from dovetail.cli.render import Progress, Screen
from dovetail.errors import DataError, DovetailError, PlanError, SearchError

if TYPE_CHECKING:
    from dovetail.compare import TaskMetric
    from dovetail.data import SampleSource, Splits
    from dovetail.ir import Graph
    from dovetail.partition import PartitionedGraph
    from dovetail.plan import Placement, Recipe
    from dovetail.quantize import Calibration, CalibrationOptions, Dequantized
    from dovetail.report import Report
    from dovetail.search import CostOptions, Goal, Trial, TuneOptions, TuneRequest, TuneResult

_REQUEST = "request.json"
_KIND = "dovetail-tune"
_EIGHT_BITS = ("i8pc", "u8")


@dataclass(frozen=True, slots=True)
class TuneJob:
    """Hold everything that a search needs, opened and checked."""

    graph: Graph
    calibration_samples: SampleSource
    calibration_options: CalibrationOptions
    samples: SampleSource
    splits: Splits
    metric: TaskMetric
    metric_identity: str
    goal: Goal
    low: Placement
    ladder: tuple[Placement, ...]
    options: TuneOptions
    out: Path
    wishes: Recipe | None
    costs: CostOptions
    lifted: Dequantized | None = None
    """The float form of a model that came quantised, with the ranges of its scales."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """Hold what a job gave; `files` are what it wrote."""

    result: TuneResult
    report: Report
    files: Mapping[str, Path]


def run_job(job: TuneJob, screen: Screen) -> Tuned:
    """Calibrate, search, compile and write; the journal in the folder makes the search resumable."""
    import dovetail

    request = request_of(job, screen)
    calibration = request.calibration
    with screen.progress("searching") as bar:
        result = dovetail.tune(request, _Listener(bar))
    with screen.progress("compiling"):
        partitioned = dovetail.partition(dovetail.quantize(job.graph, result.plan, calibration.ranges))
        bundle = dovetail.predict_partitions(dovetail.compile_model(partitioned), job.graph)
        dovetail.save_bundle(bundle, job.out / "bundle")
    return _write(job, calibration, result, partitioned)


def request_of(job: TuneJob, screen: Screen) -> TuneRequest:
    """Calibrate, and return what the search is asked."""
    import dovetail

    with screen.progress("calibrating", job.calibration_samples.count) as bar:
        calibration = dovetail.calibrate(job.graph, job.calibration_samples, job.calibration_options, bar.advance)
    if job.lifted is not None:
        calibration = job.lifted.refine(calibration)
    return dovetail.TuneRequest(
        graph=job.graph,
        calibration=calibration,
        samples=job.samples,
        splits=job.splits,
        metric=job.metric,
        goal=job.goal,
        low=job.low,
        ladder=job.ladder,
        metric_identity=job.metric_identity,
        options=job.options,
        wishes=job.wishes,
        costs=job.costs,
    )


def _write(job: TuneJob, calibration: Calibration, result: TuneResult, partitioned: PartitionedGraph) -> Tuned:
    import dovetail

    report = dovetail.make_report(result, partitioned, f"Dovetail: '{job.graph.name}' on {job.low.target}")
    targets = {name: dovetail.find_target(name) for name in sorted({job.low.target, *result.plan.targets})}
    try:
        found = dovetail.plan_to_recipe(job.graph, result.plan, targets)
        limited = found if job.wishes is None else replace(found, limits=job.wishes.limits)
        recipe = dovetail.recipe_to_toml(limited)
    except PlanError as error:
        recipe = f"# {error}\n"
    files = {
        "plan": job.out / "plan.json",
        "ranges": job.out / "ranges.json",
        "recipe": job.out / "recipe.toml",
        "report": job.out / "report.txt",
        "result": job.out / "result.json",
    }
    write_file(files["plan"], result.plan.to_json())
    write_file(files["ranges"], calibration.ranges.to_json())
    write_file(files["recipe"], f"# Made by dovetail tune; edit it, then: dovetail plan --recipe recipe.toml\n{recipe}")
    write_file(files["report"], dovetail.page_text(dovetail.report_page(report)))
    write_file(files["result"], dovetail.report_to_json(report))
    journal = {} if job.options.journal is None else {"journal": job.options.journal}
    return Tuned(result, report, {**files, "bundle": job.out / "bundle", **journal})


class _Listener:
    """Show the stages of a search and count its trials."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._trials = 0

    def stage(self, title: str) -> None:
        """A stage begins."""
        self._bar.rename(f"searching: {title}")

    def trial(self, trial: Trial) -> None:
        """A plan was judged."""
        self._trials += 1
        self._bar.advance(self._trials)


def claim_folder(out: Path, question: Mapping[str, object]) -> None:
    """Make the folder of a search, or take up one of ours.

    Raises DovetailError when it holds something else.
    """
    request = out / _REQUEST
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise DovetailError(f"{out}: exists and is no folder.", hint="Choose another one with -o.")
    if out.is_dir() and any(out.iterdir()) and not _is_request(request):
        raise DovetailError(
            f"{out}: holds files that dovetail tune did not make: it stays as it is.",
            hint="Choose another one with -o.",
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DovetailError(f"{out}: cannot be made: {error.strerror}.", hint="Choose another one with -o.") from error
    document = {"schema": 1, "kind": _KIND, **question}
    write_file(request, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _is_request(path: Path) -> bool:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("kind") == _KIND


def metric_for(name: str | None, samples: SampleSource) -> tuple[TaskMetric, str]:
    """Return the metric, and a text that changes with its code.

    Without a name: top1 when the samples have labels, else agreement with the float model's best class.
    """
    import dovetail

    if name is None:
        first = next(iter(samples), None)
        if first is None:
            raise DataError("the data set is empty.", hint="Give at least two samples.")
        name = "top1" if first.labels else "top1_agreement"
    metric = dovetail.load_metric(name)
    file = Path(name.rpartition(":")[0])
    code = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return metric, f"{name.rpartition(':')[2]}:{code}"


def low_placement(target: str, precision: str | None) -> Placement:
    """Return where the search starts: as asked, else the first 8-bit precision that is cheaper than 16 bits."""
    import dovetail
    from dovetail.ir.precision import Precision

    order = dovetail.find_target(target).precisions
    if precision is not None:
        return dovetail.parse_placement(f"{target}@{precision}")
    cheap = order[: order.index(Precision.I16)] if Precision.I16 in order else order
    found = next((name for name in _EIGHT_BITS if Precision(name) in cheap), None)
    if found is None:
        raise SearchError(f"target '{target}' has no 8-bit precision to start from.", hint="Name one with --low.")
    return dovetail.parse_placement(f"{target}@{found}")


def ladder_placements(target: str, raises: tuple[str, ...]) -> tuple[Placement, ...]:
    """Return the placements that culprits are raised to: precisions of the target, or placements elsewhere."""
    import dovetail

    return tuple(dovetail.parse_placement(text if "@" in text else f"{target}@{text}") for text in raises)
