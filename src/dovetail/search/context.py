"""What the stages of one search share, all of it frozen: the question, the space, the evaluators and the two splits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from dovetail.backend.protocols import Fidelity
from dovetail.cost.unit_prices import ProbedPrices
from dovetail.errors import CostError, SearchError
from dovetail.ir.graph import Graph
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override
from dovetail.search.candidate import Candidate
from dovetail.search.clock import SearchClock
from dovetail.search.evaluator import EvaluationData, simulates_whole, simulator_of
from dovetail.search.fanout import Executor, Work, open_channels
from dovetail.search.journal import Journal
from dovetail.search.log import SCHEMA, LogLine, SearchLog
from dovetail.search.oracle import Oracle, Split
from dovetail.search.outputs import KeptOutputs
from dovetail.search.policy import SearchPolicy
from dovetail.search.price_record import PriceRecord
from dovetail.search.prior import UnitPrior, rank_units
from dovetail.search.proof import Prover, make_prover
from dovetail.search.recorded import RecordedEvaluator, SampleCount
from dovetail.search.request import TuneListener, TuneRequest
from dovetail.search.result import Evidence
from dovetail.search.samples import SampleSet
from dovetail.search.space import Space, SpaceOptions, make_space
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Scores
from dovetail.search.vendor import VendorJudge


@dataclass(frozen=True, slots=True)
class Playback:
    """Evaluations and prices of a log, the only ones that a replay may use, and the lines that it writes itself."""

    evaluations: Sequence[tuple[str, str, Scores]]
    prices: ProbedPrices
    ends: Mapping[float, int] = field(default_factory=dict)
    """How many evaluations had been used when shares of the time were spent."""
    lines: list[LogLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SearchMemory:
    """What the contexts of one search share: outputs that models gave, and the count of samples."""

    outputs: KeptOutputs
    count: SampleCount = field(default_factory=SampleCount)

    @classmethod
    def of(cls, request: TuneRequest, playback: Playback | None = None) -> SearchMemory:
        """Return the memory of a search that begins."""
        options = request.options
        clock = SearchClock(options.time_limit_s, None if playback is None else playback.ends)
        return cls(KeptOutputs(options.policy.evaluation.golden_bytes), SampleCount(clock))


@dataclass(frozen=True)
class SearchContext:
    """What the stages of one search share."""

    request: TuneRequest
    space: Space
    prior: Sequence[UnitPrior]
    """All units, worst first."""
    prover: Prover | None
    """Prices plans; None where nothing does."""
    fast: RecordedEvaluator
    exact: RecordedEvaluator
    search: Oracle
    """Judges plans on the search split, by the fast evaluator."""
    holdout: Oracle
    """The same on the hold-out split."""
    listener: TuneListener
    log: SearchLog
    memory: SearchMemory
    vendor: VendorJudge | None = None

    @property
    def policy(self) -> SearchPolicy:
        """Return the numbers that steer the search."""
        return self.request.options.policy

    @property
    def clock(self) -> SearchClock:
        """Return the time of the search."""
        return self.memory.count.clock

    @property
    def is_limited(self) -> bool:
        """Tell whether plans have to keep within limits."""
        return self.request.limits.are_any

    @cached_property
    def tolerance(self) -> Tolerance:
        """Return what the goal allows on the search split."""
        return Tolerance(self.request.goal.allowance(self.search.float_score))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Return all units in the order of the prior."""
        return tuple(item.unit for item in self.prior)

    @cached_property
    def _reasons(self) -> dict[str, str]:
        return {item.unit: item.reason for item in self.prior}

    def override(self, unit: str, placement: Placement, tested: bool = True) -> Override:
        """Return where a unit goes, with the reason; `tested` says that the plan without it alone was tested."""
        why = f"breaks at {self.space.low}" if tested else "raised with others, not tested alone"
        return Override(placement, f"{why}: {self._reasons[unit]}")

    def raised(self, units: Iterable[str], *, top: bool, tested: bool = True) -> dict[str, Override]:
        """Return units raised to the first rung of their ladders, or to the last."""
        return {unit: self.override(unit, self.space.rung(unit, top), tested) for unit in units}

    def candidate(self, raised: dict[str, Override], evidence: tuple[Evidence, ...] = ()) -> Candidate:
        """Return the plan that raises some units."""
        return Candidate(self.space.plan(raised), raised, evidence)

    def apart(self, number: int) -> Oracle:
        """Return an oracle over the search split that remembers nothing of the search."""
        name = f"again {number}"
        return Oracle(self.fast.apart(name), Split(name, self.search.indices), self.space.float_plan, self.policy.race)


@contextmanager
def open_search(
    request: TuneRequest,
    listener: TuneListener,
    log: SearchLog,
    playback: Playback | None = None,
    memory: SearchMemory | None = None,
) -> Iterator[SearchContext]:
    """Open everything that a search needs but its log, and close it in the end.

    The memory is that of an earlier context of the same search.

    Raises SearchError when nothing can run low or the samples show nothing, DataError for unusable samples.
    """
    space = _space(request)
    memory = memory or SearchMemory.of(request)
    samples = SampleSet(request.graph, request.samples)
    splits, options, policy = request.splits, request.options, request.options.policy
    if max(*splits.search, *splits.holdout) >= samples.count:
        raise SearchError(f"the splits are not of these {samples.count} samples.", hint="Split these samples.")
    identity = request.metric_identity or request.metric.name
    data = EvaluationData(
        request.graph, samples, request.metric, identity, policy.evaluation, request.source, memory.outputs
    )
    ranges, target = request.calibration.ranges, request.low.target
    served = space.targets
    executors = fast_executor(data.graph, target, served), exact_executor(target, served)
    simulator, pipeline = (replace(item, threads=cores()).evaluator(data, ranges) for item in executors)
    if not log.lines:
        _write_head(log, request, simulator.identity)
    journal = Journal(options.journal, _digest(f"{simulator.identity}\n{pipeline.identity}"), log)
    if playback is not None:
        journal.close_to_new(playback.evaluations)
    works = [partial(Work.of, data, ranges, request.needed, item) for item in executors]
    channels = open_channels(options.fanout, works, journal)
    retries = options.fanout.options.retries
    fast = RecordedEvaluator(simulator, journal, "fast", channels[0], retries, memory.count)
    try:
        search = Split.shuffled("search", splits.search, splits.seed)
        holdout = Split.shuffled("holdout", splits.holdout, splits.seed)
        oracle = Oracle(fast, search, space.float_plan, policy.race)
        _refuse_nothing_to_lose(request, oracle)
        prior = rank_units(space, request.calibration, policy.prior)
        record = PriceRecord(journal, log, None if playback is None else playback.prices, listener.stage)
        yield SearchContext(
            request=request,
            space=space,
            prior=prior,
            prover=_prover(request, space, [item.unit for item in prior], record),
            fast=fast,
            exact=RecordedEvaluator(pipeline, journal, "exact", channels[1], retries, fast.count),
            search=oracle,
            holdout=Oracle(fast, holdout, space.float_plan, policy.race),
            listener=listener,
            log=log,
            memory=memory,
            vendor=None if options.vendor is None else VendorJudge(data, ranges, options.vendor, journal),
        )
    finally:
        fast.close()
        journal.close()


def _space(request: TuneRequest) -> Space:
    options = SpaceOptions(request.repairs, request.demands)
    return make_space(request.graph, request.low, request.ladder, request.wishes, options)


def fast_executor(graph: Graph, target: str, targets: tuple[str, ...] = ()) -> Executor:
    """Return how most plans of a search are evaluated: quickly, and as far as they can be on one target's simulator.

    `targets` are all that plans name.
    """
    backends = {target: simulator_of(target).name}
    return Executor(target, simulates_whole(graph, target), Fidelity.FAST, backends, targets)


def exact_executor(target: str, targets: tuple[str, ...] = ()) -> Executor:
    """Return how a search evaluates what it accepts: as bundles, exactly."""
    return Executor(target, whole=False, fidelity=Fidelity.EXACT, targets=targets)


def _refuse_nothing_to_lose(request: TuneRequest, oracle: Oracle) -> None:
    if request.metric.higher_is_better and oracle.scores_nothing:
        raise SearchError(
            f"the float model scores 0 on each of {oracle.sample_count} samples: there is nothing to lose, "
            "and nothing to tune.",
            hint="Check the labels, the preprocessing (channel order, mean, scale) and the metric.",
        )


def _prover(request: TuneRequest, space: Space, order: Sequence[str], record: PriceRecord) -> Prover | None:
    try:
        return make_prover(space, request.limits, request.costs, order, request.options.policy, record)
    except CostError:
        if request.limits.are_any:
            raise
        return None


def _write_head(log: SearchLog, request: TuneRequest, identity: str) -> None:
    options, costs, splits = request.options, request.costs, request.splits
    log.write(
        "search",
        schema=SCHEMA,
        graph=request.graph.digest,
        ranges=request.calibration.ranges.digest,
        samples=request.samples.digest,
        metric=request.metric_identity or request.metric.name,
        goal=repr(request.goal),
        low=str(request.low),
        ladder=[str(place) for place in request.ladder],
        demands="" if request.demands is None else request.demands.tool,
        split=[splits.seed, len(splits.search), len(splits.holdout)],
        plans=options.max_plans,
        time_limit_s=options.time_limit_s,
        confirm=options.confirm,
        costs=[costs.migrates, costs.most_tests, costs.time_limit_s, costs.worthwhile],
        policy=options.policy.document(),
        repairs=list(options.repairs),
        evaluator=_digest(identity),
        arguments=options.log_header,
    )


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
