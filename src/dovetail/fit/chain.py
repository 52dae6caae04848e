"""The whole chain: load, normalise, split, calibrate, tune, quantise, partition, compile, price, report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.backend.profiles.hosts import find_host
from dovetail.backend.registry import backend
from dovetail.compile import CompileRequest, compile_model
from dovetail.cost import load_cost_table, predict_partitions
from dovetail.data import (
    SampleSource,
    Splits,
    first_samples,
    keep_samples,
    open_samples,
    samples_path,
    specs_of,
    split_samples,
)
from dovetail.data.distinct import distinct_samples
from dovetail.errors import DataError, SearchError
from dovetail.fit.board import BoardJudge, check_board, judged_report
from dovetail.fit.decided import PlanDecisions, plan_decisions
from dovetail.fit.evidence import holdout_note, refuse_any, refuse_few
from dovetail.fit.folder import claim_folder, refuse_folder
from dovetail.fit.listener import FitListener, SearchStages, SilentFit
from dovetail.fit.metric import ChosenMetric, choose_metric
from dovetail.fit.network import describe_network
from dovetail.fit.pictures import ChosenPreprocess, choose_preprocess, list_pictures
from dovetail.fit.policy import choose_ladder, choose_low, choose_repairs
from dovetail.fit.promise import make_promise
from dovetail.fit.record import record_of, request_from
from dovetail.fit.request import SURE, FitRequest, WorkerRequest
from dovetail.fit.result import Fit, question_of
from dovetail.fit.toolchain import NOTHING_REPAIRED, calibrate_for, choose_demands, choose_format
from dovetail.fit.unlike import unlike_note
from dovetail.importers import LoadOptions, load_model
from dovetail.ir import Graph
from dovetail.partition import PartitionedGraph, partition
from dovetail.passes import normalize
from dovetail.plan import Placement, Recipe, load_recipe
from dovetail.plan.demands import ToolDemands
from dovetail.quantize import Dequantized, dequantize, is_quantized, quantize
from dovetail.repair import HealedModel
from dovetail.report import Report, make_report, output_rows
from dovetail.search import CostOptions, Goal, TuneOptions, TuneRequest, TuneResult, Verdict, parse_goal
from dovetail.search.context import SearchMemory
from dovetail.search.fanout import FanOut, PoolOptions, dask_place, local_place
from dovetail.search.healing import HealingOutcome, heal_request, healed_request
from dovetail.search.log import read_search_log
from dovetail.search.replay import ReplayResult, replay
from dovetail.search.tune import run_search

_WORKERS_AFTER_S = 20.0
"""Time of evaluations in this process before workers are started, each of which imports and builds all anew for
several seconds."""
_OPEN = "all"
"""The choice of repairs that leaves it to a recipe."""


def fit(request: FitRequest, listener: FitListener | None = None) -> Fit:
    """Return the cheapest placement that meets the target, compiled and reported.

    With a folder the search keeps a journal there: the same request goes on where a killed one was, and repeats no
    evaluation. Raises DovetailError for what cannot be used, before the folder is touched where that can be known.
    """
    progress = listener or SilentFit()
    opened = _Opened.of(request, progress)
    check_board(request, (opened.low, *opened.ladder))
    if request.folder is not None:
        claim_folder(Path(request.folder), question_of(request, opened.graph, opened.low), overwrite=request.overwrite)
    options = TuneOptions(
        time_limit_s=request.search_s,
        journal=request.journal_path,
        fanout=_fan_out(request.workers),
        confirm=request.confirm,
        log=None if request.log is None else Path(request.log),
        log_header=record_of(request.for_log()),
        vendor=request.vendor,
        repairs=_repairs(request, opened.wishes),
    )
    asked = opened.tune_request(options, progress)
    memory = SearchMemory.of(asked)
    result = run_search(asked, SearchStages(progress), memory=memory)
    refuse_any(result.goal, result.holdout.float_score, higher_is_better=result.higher_is_better)
    model = result.repaired or HealedModel(asked.graph, asked.calibration)
    if opened.metric.decisions is not None:
        progress.stage("comparing decisions")
    healed, steps = healed_request(asked, model), opened.preprocess.preprocess
    decided = plan_decisions(healed, result, opened.metric, steps, memory.outputs)
    progress.stage("compiling")
    partitioned = partition(quantize(model.graph, result.plan, model.calibration.ranges))
    bundle = predict_partitions(compile_model(partitioned, _backends(request, partitioned)), model.graph)
    report = make_report(result, partitioned, f"Dovetail: '{Path(request.model).name}' on {opened.low.target}")
    if request.board is not None:
        found = BoardJudge(healed, result, bundle, memory.outputs, request.workers.retries).judge(
            request.board, progress
        )
        report = judged_report(report, found)
    return Fit(
        request=request,
        graph=model.graph,
        shipped=opened.graph,
        calibration=model.calibration,
        wishes=opened.wishes,
        result=result,
        bundle=bundle,
        report=_whole(report, opened, decided, _remarks(opened, model, result, progress)),
        promise=make_promise(asked, request, opened.metric, result, partitioned),
        network=describe_network(asked, result, partitioned, request.price),
        pictures=decided.pictures,
        preprocess=opened.preprocess.toml,
    )


def replay_fit(log: str | Path, listener: FitListener | None = None) -> ReplayResult:
    """Return the answer that the log of a fit leads to, without evaluating a plan.

    The model and the samples have to be where they were: ranges are found again. Raises SearchError when the file is
    no log, or does not say which request made it.
    """
    path, progress = Path(log), listener or SilentFit()
    request = logged_request(path)
    opened = _Opened.of(request, progress)
    options = TuneOptions(
        time_limit_s=request.search_s,
        confirm=request.confirm,
        vendor=request.vendor,
        repairs=_repairs(request, opened.wishes),
    )
    asked = opened.tune_request(options, progress)
    progress.stage("replaying")
    return replay(asked, path)


def logged_request(path: Path) -> FitRequest:
    """Return the request that a log is of; raise SearchError when the log does not say."""
    return request_from(read_search_log(path).header.get("arguments"), str(path))


def heal(request: FitRequest, listener: FitListener | None = None) -> HealingOutcome:
    """Return the model with the repairs that make everything low better on the part of the data that a search may see.

    Raises DovetailError for what cannot be used.
    """
    progress = listener or SilentFit()
    opened = _Opened.of(request, progress)
    asked = opened.tune_request(TuneOptions(repairs=_repairs(request, opened.wishes)), progress)
    return heal_request(asked, SearchStages(progress))


def _whole(report: Report, opened: _Opened, decided: PlanDecisions, remarks: tuple[str, ...]) -> Report:
    """Return a report with what was found out before and after the search."""
    return replace(
        report,
        outputs=output_rows(opened.metric.view),
        notes=opened.notes,
        remarks=(*report.remarks, *remarks),
        proof=None if report.proof is None else replace(report.proof, migrates=opened.request.migrates),
        decisions=decided.figures,
        differing=decided.differing,
    )


def _remarks(opened: _Opened, model: HealedModel, result: TuneResult, progress: FitListener) -> tuple[str, ...]:
    """Return why the hold-out may refuse what the search split did not: samples that are unlike those."""
    if result.verdict is not Verdict.MISSED and not (result.looks > 1 and result.culprits):
        return ()
    progress.stage("comparing samples")
    note = unlike_note(model.graph, model.calibration.ranges, opened.samples.subset(opened.splits.holdout))
    return (note,) if note else ()


@dataclass(frozen=True, slots=True)
class _Opened:
    """A request with everything that it names read and checked."""

    graph: Graph
    lifted: Dequantized | None
    """The float form of a model that came quantised, with the ranges of its scales."""
    samples: SampleSource
    splits: Splits
    calibration_samples: SampleSource
    """What ranges are found on."""
    metric: ChosenMetric
    preprocess: ChosenPreprocess
    notes: tuple[str, ...]
    """What was found out of the outputs and the samples."""
    goal: Goal
    low: Placement
    ladder: tuple[Placement, ...]
    wishes: Recipe | None
    costs: CostOptions
    demands: ToolDemands | None
    request: FitRequest

    @classmethod
    def of(cls, request: FitRequest, progress: FitListener) -> _Opened:
        """Open a request: what is quickly checked comes first, the model and the samples last."""
        goal = parse_goal(request.max_drop, request.min_score, sure=request.policy == SURE)
        low, ladder = choose_low(request.target, request.low), choose_ladder(request.target, request.ladder)
        wishes = None if request.recipe is None else load_recipe(Path(request.recipe))
        allowed = _allowed(request, wishes)
        costs, form = _costs(request), choose_format(request)
        if request.vendor is not None:
            backend(request.vendor.backend)
        source = _load(request, progress)
        lifted = dequantize(source) if is_quantized(source) else None
        graph = source if lifted is None else lifted.graph
        demands = choose_demands(request, form, graph, low, ladder)
        pictures = list_pictures(samples_path(request.data))
        if pictures and not request.anyway:
            refuse_few(len(pictures), goal, request.split)
        if request.folder is not None:
            refuse_folder(Path(request.folder), question_of(request, graph, low), overwrite=request.overwrite)
        preprocess, specs = choose_preprocess(request, source, graph), specs_of(graph)
        steps = preprocess.preprocess
        labels = None if request.labels is None else Path(request.labels)
        opened = keep_samples(open_samples(request.data, specs, steps, labels))
        if not request.anyway:
            refuse_few(opened.count, goal, request.split)
        samples, copies = distinct_samples(opened)
        again = (f"{copies} samples are copies of others: each counts once",) if copies else ()
        if copies and samples.count == 1:
            raise DataError(f"{request.data}: all samples are copies of one.", hint="Give different ones.")
        splits = split_samples(samples, request.split)
        if not request.anyway:
            refuse_few(len(splits.search) + len(splits.holdout), goal, request.split)
        metric = choose_metric(request.metric, request.decisions, graph, samples.subset(splits.search))
        evidence = holdout_note(splits, goal, metric.metric, request.split)
        repaired = NOTHING_REPAIRED if demands is not None and allowed else ""
        notes = tuple(filter(None, (metric.note, *preprocess.notes, *again, evidence, repaired)))
        for note in notes:
            progress.note(note)
        own = request.calibration.data
        calibration_samples = samples.subset(splits.search) if own is None else open_samples(own, specs, steps)
        return cls(
            graph=graph,
            lifted=lifted,
            samples=samples,
            splits=splits,
            calibration_samples=first_samples(calibration_samples, request.calibration.limit),
            metric=metric,
            preprocess=preprocess,
            notes=notes,
            goal=goal,
            low=low,
            ladder=ladder,
            wishes=wishes,
            costs=costs,
            demands=demands,
            request=request,
        )

    def tune_request(self, options: TuneOptions, progress: FitListener) -> TuneRequest:
        """Calibrate, and return what the search is asked."""
        progress.stage("calibrating", self.calibration_samples.count)
        calibration = calibrate_for(self.request, self.graph, self.calibration_samples, progress)
        return TuneRequest(
            graph=self.graph,
            calibration=calibration if self.lifted is None else self.lifted.refine(calibration),
            samples=self.samples,
            splits=self.splits,
            metric=self.metric.metric,
            goal=self.goal,
            low=self.low,
            ladder=self.ladder,
            metric_identity=self.metric.identity,
            options=options,
            wishes=self.wishes,
            costs=self.costs,
            decisions=self.metric.decisions,
            demands=self.demands,
        )


def _load(request: FitRequest, progress: FitListener) -> Graph:
    conversion = replace(request.load.conversion, progress=progress.converting)
    options: LoadOptions = replace(request.load, conversion=conversion)
    return normalize(load_model(request.model, options), options.passes)


def _costs(request: FitRequest) -> CostOptions:
    price = request.price
    tables = tuple(load_cost_table(Path(path)) for path in price.tables)
    host = None if price.host is None else find_host(price.host)
    return CostOptions(tables, host, request.migrates, price.proof_tests, vendor_s=price.vendor_s)


def _repairs(request: FitRequest, wishes: Recipe | None) -> tuple[str, ...]:
    """Return the repairs that may be tried: none where a toolchain reads the model as it is."""
    allowed = _allowed(request, wishes)
    return allowed if request.toolchain is None else ()


def _allowed(request: FitRequest, wishes: Recipe | None) -> tuple[str, ...]:
    """Return the kinds of repairs that the request allows, or a recipe where the request leaves it open."""
    if wishes is None or not wishes.repair or request.repairs != _OPEN:
        return choose_repairs(request.repairs)
    try:
        return choose_repairs(wishes.repair)
    except SearchError as error:
        raise SearchError(f"{request.recipe}: 'repair': {error.message}", hint=error.hint, option="recipe") from error


def _backends(request: FitRequest, parts: PartitionedGraph) -> CompileRequest:
    """Return how the answer is compiled; a backend may be chosen for a target that it does not use."""
    used = {part.target for part in parts.partitions}
    return CompileRequest(backends={target: name for target, name in request.backends.items() if target in used})


def _fan_out(workers: WorkerRequest) -> FanOut:
    """Return where plans are evaluated; raise SearchError when a cluster does not answer."""
    options = PoolOptions(workers.timeout_s, workers.retries)
    if workers.dask is not None:
        return FanOut(dask_place(workers.dask, workers.resources), options)
    # Several are asked for speed, which this process has as well; one, a time limit or retries, to contain what breaks.
    for_speed = workers.processes > 1 and workers.timeout_s is None and not workers.retries
    after_s = _WORKERS_AFTER_S if for_speed else 0.0
    return FanOut(local_place(workers.processes) if workers.processes else None, options, after_s)
