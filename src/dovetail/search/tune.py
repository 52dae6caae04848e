"""Tune: the one loop from a float graph to a plan that meets its target."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from dovetail.backend.protocols import Fidelity
from dovetail.compare.task import TaskMetric
from dovetail.data.sample import SampleSource
from dovetail.data.split import Splits
from dovetail.errors import CostError, SearchError
from dovetail.ir.graph import Graph
from dovetail.plan.limits import Limits
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.recipe import Recipe
from dovetail.quantize.calibrate import Calibration
from dovetail.search.accept import Acceptance, accept
from dovetail.search.bars import bars_of
from dovetail.search.confirm import confirm, contradictions
from dovetail.search.evaluator import SIMULATOR, EvaluationData, simulates_whole
from dovetail.search.fanout import Executor, FanOut, Work, open_desks
from dovetail.search.front import pareto_front
from dovetail.search.goal import Goal
from dovetail.search.hunt import Found, Hunt, HuntOptions
from dovetail.search.journal import Journal, Scores
from dovetail.search.log import SCHEMA as LOG_SCHEMA
from dovetail.search.log import SearchLog
from dovetail.search.margin import Widened, Widener
from dovetail.search.oracle import Bar, Oracle, Split
from dovetail.search.pareto import pareto_points
from dovetail.search.pipeline import Pipeline, PipelineOptions
from dovetail.search.prior import suspect
from dovetail.search.proof import CostOptions, Prover, make_prover
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.result import Culprit, GateCheck, GateVerdict, Margin, SplitScores, TuneCost, TuneResult
from dovetail.search.rounds import Seekers, rounds
from dovetail.search.samples import SampleSet
from dovetail.search.space import Space, make_space
from dovetail.search.trial import Trial
from dovetail.search.vendor import VendorCheck, VendorJudge


class TuneListener(Protocol):
    """Hear of progress."""

    def stage(self, title: str) -> None:
        """A stage begins."""

    def trial(self, trial: Trial) -> None:
        """A plan was judged."""


class _Silent:
    def stage(self, title: str) -> None:
        pass

    def trial(self, trial: Trial) -> None:
        pass


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """Say how to search.

    After `max_plans` plans a passing set is no longer made smaller, and no other round begins: it is returned without
    a proof that it is minimal.
    """

    max_plans: int = 200
    journal: Path | None = None
    fanout: FanOut = field(default_factory=FanOut)
    confirm: int = 0
    """How often the plan and every removal from it are evaluated again in the end."""
    log: Path | None = None
    log_header: Mapping[str, object] = field(default_factory=dict)
    """What the log says of where the question came from."""
    recall: Sequence[tuple[str, str, Scores]] | None = None
    """For a replay: what is known of plans and blocks of samples; nothing else is evaluated then."""
    heard: list[Mapping[str, object]] | None = None
    """For a replay: takes the lines of the log."""
    vendor: VendorCheck | None = None
    """Ask the vendor's own simulator before a plan is accepted."""


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Say what to tune: a graph with its calibration, samples and metric, the goal, and the placements.

    `splits` says which of the samples the search may see.
    """

    graph: Graph
    calibration: Calibration
    samples: SampleSource
    splits: Splits
    metric: TaskMetric
    goal: Goal
    low: Placement
    ladder: tuple[Placement, ...]
    metric_identity: str = ""
    options: TuneOptions = field(default_factory=TuneOptions)
    wishes: Recipe | None = None
    """Rules that pin nodes, and limits on the whole plan; its default and fallbacks are not looked at."""
    costs: CostOptions = field(default_factory=CostOptions)


def tune(request: TuneRequest, listener: TuneListener | None = None) -> TuneResult:
    """Return the plan that raises a 1-minimal set of units and meets the goal on samples that the search never saw.

    Raises SearchError when the float model misses the goal or nothing can run low, DataError for unusable samples.
    """
    heard = listener or _Silent()
    started = time.perf_counter()
    space = make_space(request.graph, request.low, request.ladder, request.wishes)
    bench = _Bench.open(request, space)
    try:
        _refuse_nothing_to_lose(request, bench.search)
        heard.stage("gate")
        hunt_options = HuntOptions(heard, request.options.max_plans)
        hunt = Hunt(suspect(space, request.calibration), space, bench.recorded, bench.search, hunt_options)
        verdict, gate = hunt.gate(request.goal, bench.exact)
        prover = _prover(request, space, [item.unit for item in hunt.suspicions])
        limited = request.wishes is not None and request.wishes.limits.are_any

        looked: set[str] = set()

        def look(found: Found) -> Acceptance:
            looked.add(found.plan.digest)
            return _looked_at(found, request.goal, bench, heard, len(looked))

        bare = Bar(request.goal.allowance(bench.search.float_score))
        bars = bars_of(request.goal, bench.search, verdict)
        widener = Widener(hunt, prover, look, bare.allowance)

        def holds(found: Found) -> bool:
            looked.add(found.plan.digest)
            acceptance = accept(bench.search, bench.holdout, bench.exact, found.plan, request.goal)
            return widener.widen(acceptance, found).acceptance.accepted

        widened = rounds(bars, bare, look, Seekers(hunt, prover, limited, widener, holds), heard)
        if verdict is GateVerdict.NOTHING_TO_DO and widened.found.raised:
            verdict = GateVerdict.QUANTISATION_BREAKS
        if verdict is GateVerdict.QUANTISATION_BREAKS and hunt.reaches_the_last_rung:
            verdict = GateVerdict.SIXTEEN_BITS_FAIL
        widened, events = _confirmed(request, bench, hunt, widened)
        outcome = _Outcome(verdict, gate, widened.found, widened.acceptance, events, widened.margin)
        result = _result(request, bench, outcome, time.perf_counter() - started)
        bench.log_answer(result)
        return result
    finally:
        bench.close()


def _refuse_nothing_to_lose(request: TuneRequest, oracle: Oracle) -> None:
    if request.metric.higher_is_better and oracle.scores_nothing:
        raise SearchError(
            f"the float model scores 0 on each of {oracle.sample_count} samples: there is nothing to lose, "
            "and nothing to tune.",
            hint="Check the labels, the preprocessing (channel order, mean, scale) and the metric.",
        )


def _prover(request: TuneRequest, space: Space, suspects: Sequence[str]) -> Prover | None:
    limits = Limits() if request.wishes is None else request.wishes.limits
    try:
        return make_prover(space, limits, request.costs, suspects)
    except CostError:
        if limits.are_any:
            raise
        return None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Hold what the stages gave."""

    verdict: GateVerdict
    gate: tuple[GateCheck, ...]
    found: Found
    acceptance: Acceptance
    events: tuple[str, ...]
    margin: Margin | None


@dataclass(frozen=True, slots=True)
class _Bench:
    """Hold the evaluators and the two splits."""

    space: Space
    journal: Journal
    log: SearchLog
    exact: RecordedEvaluator
    recorded: RecordedEvaluator
    search: Oracle
    holdout: Oracle
    vendor: VendorJudge | None

    @classmethod
    def open(cls, request: TuneRequest, space: Space) -> _Bench:
        samples = SampleSet(request.graph, request.samples)
        options, splits = request.options, request.splits
        if max(*splits.search, *splits.holdout) >= samples.count:
            raise SearchError(f"the splits are not of these {samples.count} samples.", hint="Split these samples.")
        identity = request.metric_identity or request.metric.name
        data = EvaluationData(request.graph, samples, request.metric, identity)
        ranges = request.calibration.ranges
        target = request.low.target
        whole = simulates_whole(data.graph, target)
        how = Executor(target, whole, Fidelity.FAST, {target: SIMULATOR}, space.targets)
        fast, pipeline = how.evaluator(data, ranges), Pipeline(data, ranges, PipelineOptions(targets=space.targets))
        context = hashlib.sha256(f"{fast.identity}\n{pipeline.identity}".encode()).hexdigest()
        log = _open_log(request, fast.identity)
        journal = Journal(options.journal, context, log)
        if options.recall is not None:
            journal.close_to_new(options.recall)
        hows = (how, Executor(target, whole=False, fidelity=Fidelity.EXACT, targets=space.targets))
        desks = open_desks(options.fanout, [partial(Work.of, data, ranges, item) for item in hows], journal)
        retries = options.fanout.options.retries
        recorded = RecordedEvaluator(fast, journal, "fast", desks[0], retries)
        return cls(
            space=space,
            journal=journal,
            log=log,
            exact=RecordedEvaluator(pipeline, journal, "exact", desks[1], retries),
            recorded=recorded,
            search=Oracle(recorded, journal, Split.shuffled("search", splits.search, splits.seed), space.float_plan),
            holdout=Oracle(recorded, journal, Split.shuffled("holdout", splits.holdout, splits.seed), space.float_plan),
            vendor=None if options.vendor is None else VendorJudge(data, ranges, options.vendor, journal),
        )

    def close(self) -> None:
        """Let the workers go and close the journal and the log."""
        self.recorded.close()
        self.journal.close()
        self.log.close()

    def again(self, number: int) -> Oracle:
        """Return an oracle over the search split that remembers nothing of the search."""
        evaluator = self.recorded.apart(f"again {number}")
        return Oracle(evaluator, self.journal, Split(f"again {number}", self.search.indices), self.space.float_plan)

    def log_answer(self, result: TuneResult) -> None:
        """Write the last lines of the log."""
        for text in result.events:
            self.log.write("event", text=text)
        raised = {item.unit: str(item.placement) for item in result.raised}
        words = {"plan": result.plan.digest, "raised": raised, "one_minimal": result.one_minimal}
        self.log.write("answer", accepted=result.accepted, verdict=result.verdict.name, **words)

    def cost(self, trials: int, elapsed_s: float) -> TuneCost:
        """Return what the search has cost so far."""
        fresh = self.recorded.fresh_samples + self.exact.fresh_samples
        recalled = self.recorded.recalled_samples + self.exact.recalled_samples
        early = self.search.rejected_early + self.holdout.rejected_early
        return TuneCost((fresh + recalled) / self.search.sample_count, fresh, recalled, trials, elapsed_s, early)


def _open_log(request: TuneRequest, identity: str) -> SearchLog:
    options = request.options
    log = SearchLog(options.log)
    if options.heard is not None:
        log.lines = options.heard
    log.write(
        "search",
        schema=LOG_SCHEMA,
        graph=request.graph.digest,
        ranges=request.calibration.ranges.digest,
        samples=request.samples.digest,
        metric=request.metric_identity or request.metric.name,
        goal=repr(request.goal),
        low=str(request.low),
        ladder=[str(place) for place in request.ladder],
        split=[request.splits.seed, len(request.splits.search), len(request.splits.holdout)],
        most=[options.max_plans, request.costs.most_tests, options.confirm, request.costs.margin],
        evaluator=hashlib.sha256(identity.encode()).hexdigest(),
        arguments=options.log_header,
    )
    return log


def _confirmed(request: TuneRequest, bench: _Bench, hunt: Hunt, widened: Widened) -> tuple[Widened, tuple[str, ...]]:
    """Evaluate again what the answer rests on, as often as was asked; say what wavers and what contradicts itself.

    What is proven is proven of the plan without its margin.
    """
    found = widened.found
    raised = {unit: item for unit, item in found.raised.items() if unit not in found.margin}
    proven = replace(found, plan=bench.space.plan(raised), raised=raised)
    bar = hunt.bar_of(proven.plan)
    if bar is None:
        return widened, bench.recorded.events
    against = contradictions(hunt.verdicts(bar))
    events = [*bench.recorded.events, *against]
    oracles = [bench.again(number) for number in range(1, request.options.confirm + 1)]
    rest = [{unit: item for unit, item in raised.items() if unit != one.unit} for one in found.evidence]
    confirmed = confirm(proven, [bench.space.plan(raised) for raised in rest], oracles, bar)
    acceptance = widened.acceptance
    if not confirmed.passes:
        acceptance = replace(acceptance, accepted=False, summary=f"the oracle wavers: {confirmed.events[0]}")
    if (confirmed.events or against) and found.certificate is not None:
        found = replace(found, certificate=replace(found.certificate, monotone=False))
    found = replace(found, evidence=confirmed.evidence)
    return Widened(acceptance, found, widened.margin), (*events, *confirmed.events)


def _looked_at(found: Found, goal: Goal, bench: _Bench, heard: TuneListener, looks: int) -> Acceptance:
    acceptance = accept(bench.search, bench.holdout, bench.exact, found.plan, goal)
    if acceptance.accepted and bench.vendor is not None:
        heard.stage("the vendor's simulator")
        acceptance = _beside_vendor(acceptance, bench.vendor, bench.holdout, found.plan, goal)
    if not found.within_limits:
        return replace(acceptance, accepted=False, summary="no plan within the limits meets the target")
    tried = f" ({looks} plans were tried on it)" if looks > 1 else ""
    note = f"; {found.note}" if found.note else ""
    return replace(acceptance, summary=f"{acceptance.summary}{tried}{note}")


def _beside_vendor(acceptance: Acceptance, vendor: VendorJudge, holdout: Oracle, plan: Plan, goal: Goal) -> Acceptance:
    finding = vendor.judge(plan, holdout.indices, goal.allowance(holdout.float_score))
    summary = f"{acceptance.summary}; {finding.summary}"
    return replace(acceptance, accepted=finding.accepted, summary=summary)


def _result(request: TuneRequest, bench: _Bench, outcome: _Outcome, elapsed_s: float) -> TuneResult:
    found, space = outcome.found, bench.space
    searched = bench.search.judge(found.plan, tuple(found.raised), Bar(0.0), race=False)
    low_on_holdout = bench.holdout.judge(space.base, (), Bar(0.0), race=False)
    low_on_search = outcome.gate[0].trial
    raised = [
        Culprit(unit, space.units[unit].nodes, request.graph.node(unit).op, override.placement, override.reason)
        for unit, override in found.raised.items()
    ]
    return TuneResult(
        plan=found.plan,
        accepted=outcome.acceptance.accepted,
        verdict=outcome.verdict,
        summary=outcome.acceptance.summary,
        goal=request.goal,
        metric=request.metric.name,
        higher_is_better=request.metric.higher_is_better,
        low=request.low,
        unit_count=len(space.units),
        culprits=tuple(item for item in raised if item.unit not in (found.companions | found.margin)),
        companions=tuple(item for item in raised if item.unit in found.companions),
        evidence=found.evidence,
        search=SplitScores(
            "search",
            bench.search.sample_count,
            bench.search.float_score,
            low_on_search.score,
            searched.score,
            low_samples=low_on_search.samples,
            tuned_samples=searched.samples,
        ),
        holdout=outcome.acceptance.scores(low_on_holdout),
        gate=outcome.gate,
        pareto=pareto_points(found.trials, found.plan.digest),
        front=pareto_front(found.trials, found.latencies_ns, found.plan.digest),
        margin=_margin(outcome, raised),
        certificate=found.certificate,
        events=outcome.events,
        cost=bench.cost(len(found.trials), elapsed_s),
    )


def _margin(outcome: _Outcome, raised: Sequence[Culprit]) -> Margin | None:
    """Return the margin with the units that make it, and what they cost."""
    if outcome.margin is None:
        return None
    units = tuple(item for item in raised if item.unit in outcome.found.margin)
    proof = outcome.found.certificate
    return replace(outcome.margin, units=units, latency_ns=0.0 if proof is None else proof.margin_ns)
