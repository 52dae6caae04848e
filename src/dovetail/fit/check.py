"""Check a plan: evaluate it anew in exact arithmetic, and hold it to what its search promised."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from dovetail.backend.registry import find_target
from dovetail.data import SampleSource, SplitOptions, keep_samples, open_samples, specs_of, split_samples
from dovetail.data.distinct import distinct_samples
from dovetail.errors import CompileError, DeviceError, DovetailError, PlanError, QuantizeError
from dovetail.fit.listener import FitListener, SilentFit
from dovetail.fit.metric import choose_metric
from dovetail.fit.pictures import choose_preprocess
from dovetail.fit.planned import PlannedModel, open_planned
from dovetail.fit.promise import integer_digests, plan_units, predicted_ns
from dovetail.fit.request import Place, PriceRequest
from dovetail.importers import LoadOptions
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Override, Plan, load_plan
from dovetail.plan.difference import compare_plans
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.resolve import unit_refusal
from dovetail.quantize import Ranges, load_ranges, quantize
from dovetail.report.figures import number_text, time_text
from dovetail.report.findings import CheckFinding, CheckOutcome, CheckResult, Subject
from dovetail.report.promise import Promise, load_promise
from dovetail.search import Goal, parse_goal
from dovetail.search.evaluator import EvaluationData
from dovetail.search.pipeline import Pipeline
from dovetail.search.samples import SampleSet

_SAME = 1e-9
"""Scores and shares of a latency nearer than this are equal."""
_PRICED = "by figures and tables, without a vendor's model"


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Which plan is checked, with what, and what may change."""

    plan: Place
    """Plan of a search; `ranges.json` and `run.json` lie beside it."""
    model: Place
    data: Place
    _: KW_ONLY
    load: LoadOptions = field(default_factory=LoadOptions)
    target: str | None = None
    """Check as on this target instead of the plan's own."""
    ranges: Place | None = None
    record: Place | None = None
    labels: Place | None = None
    preprocess: Place | None = None
    metric: str | None = None
    """None takes the recorded one."""
    decisions: str | None = None
    max_drop: str | None = None
    """None takes the recorded one, else 1 %."""
    min_score: float | None = None
    price: PriceRequest = field(default_factory=PriceRequest)
    allowed: frozenset[Subject] = frozenset()
    """What may change: it is told, and does not fail."""


def check_plan(request: CheckRequest, listener: FitListener | None = None) -> CheckResult:
    """Return what a check finds; what a plan does on samples is evaluated in its target's exact arithmetic.

    On the data of the search the recorded hold-out is scored and has to score the same; on other data all samples are,
    and only the loss against float counts. Raises DovetailError for what cannot be used.
    """
    progress = listener or SilentFit()
    opened = _Opened.of(request)
    findings = [*opened.same_model(), *opened.same_plan(), *opened.refusals()]
    if not any(item.subject is Subject.REFUSED and item.outcome is CheckOutcome.CHANGED for item in findings):
        findings += opened.evaluated(progress)
    allowed = [
        replace(item, outcome=CheckOutcome.NOTE)
        if item.subject in request.allowed and item.outcome is CheckOutcome.CHANGED
        else item
        for item in findings
    ]
    return CheckResult(str(request.plan), opened.target, tuple(allowed), tuple(opened.notes))


@dataclass(frozen=True, slots=True)
class _Opened:
    """A request with everything that it names read, and the plan made to fit the model that is there."""

    request: CheckRequest
    written: Plan
    """As it is on disk."""
    plan: Plan
    """For the graph and the target that are checked."""
    model: PlannedModel
    ranges: Ranges
    promise: Promise | None
    notes: list[str]

    @classmethod
    def of(cls, request: CheckRequest) -> _Opened:
        """Open a request."""
        path = Path(request.plan)
        written = load_plan(path)
        beside = path.parent / "run.json"
        record = Path(request.record) if request.record is not None else beside if beside.is_file() else None
        promise = None if record is None else load_promise(record)
        ranges = _load_ranges(request, path)
        model = open_planned(Path(request.model), written, request.load)
        notes = [] if promise is not None else [f"nothing beside {path} says what was promised: only the goal counts"]
        if model.graph.digest != written.graph_digest:
            missing = sorted(set(written.overrides) - {node.name for node in model.graph.nodes})
            if missing:
                raise PlanError(
                    f"{path} places node '{missing[0]}', which '{request.model}' does not have: it is another network.",
                    hint="Give the model that the plan was made for, or tune this one.",
                    option="model",
                )
            notes.append("the ranges are those of the recorded model")
        plan = replace(_moved(written, request.target), graph_digest=model.graph.digest)
        ranges = replace(ranges, graph_digest=model.graph.digest)
        return cls(request, written, plan, model, ranges, promise, notes)

    @property
    def target(self) -> str:
        """Return what the plan is checked on."""
        return self.request.target or next((name for name in self.plan.targets if name != HOST), HOST)

    def same_model(self) -> Iterator[CheckFinding]:
        """Compare the model with the one that the plan was made for."""
        before, after = self.written.graph_digest, self.model.graph.digest
        if before == after:
            yield CheckFinding(Subject.MODEL, CheckOutcome.SAME, f"'{self.request.model}' is the recorded model")
        else:
            text = f"'{self.request.model}' is not the recorded model: its weights or its nodes differ"
            yield CheckFinding(Subject.MODEL, CheckOutcome.CHANGED, text, "", before[:12], after[:12])

    def same_plan(self) -> Iterator[CheckFinding]:
        """Compare the plan with the one that the search wrote."""
        if self.promise is None:
            return
        difference = compare_plans(self.promise.plan, self.plan, self.promise.unit_of)
        first, second = difference.defaults
        if first != second:
            text = "the default is another"
            yield CheckFinding(Subject.PLACEMENT, CheckOutcome.CHANGED, text, "(default)", str(first), str(second))
        for move in difference.moved:
            before, after = str(move.before), str(move.after)
            yield CheckFinding(
                Subject.PLACEMENT, CheckOutcome.CHANGED, f"moved; {move.reason}", move.unit, before, after
            )
        if first == second and not difference.moved:
            yield CheckFinding(
                Subject.PLACEMENT, CheckOutcome.SAME, f"{len(self.promise.units)} units are where they were"
            )
        for item in difference.repairs:
            before, after = (str(list(side)) if side else "none" for side in (item.before, item.after))
            yield CheckFinding(Subject.REPAIR, CheckOutcome.CHANGED, f"{item.kind} differs", item.tensor, before, after)
        if not difference.repairs and self.plan.repairs:
            yield CheckFinding(
                Subject.REPAIR, CheckOutcome.SAME, f"{len(self.plan.repairs)} repairs are the recorded ones"
            )

    def refusals(self) -> Iterator[CheckFinding]:
        """Ask every target whether it takes what the plan places on it."""
        graph, plan = self.model.graph, self.plan
        targets = {name: find_target(name) for name in dict.fromkeys((*plan.targets, HOST))}
        units, refused = plan_units(graph, plan).items, 0
        for unit in units:
            place = plan.placement(unit.nodes[0])
            verdict = unit_refusal(graph, unit, place, targets)
            if verdict is not None:
                refused += 1
                text = f"{place} refuses node '{verdict.node}': {verdict.reason}"
                yield CheckFinding(Subject.REFUSED, CheckOutcome.CHANGED, text, unit.name)
        if not refused:
            yield CheckFinding(Subject.REFUSED, CheckOutcome.SAME, f"all {len(units)} units are taken")

    def evaluated(self, progress: FitListener) -> Iterable[CheckFinding]:
        """Run the plan, and compare its score, its price and its integers."""
        graph, promise = self.model.graph, self.promise
        source = self._samples()
        samples = SampleSet(graph, source)
        known = promise is not None and promise.data == samples.digest
        indices: Sequence[int] = range(samples.count)
        searched: Sequence[int] | None = None
        if promise is not None and known:
            splits = split_samples(source, SplitOptions(promise.holdout, promise.seed))
            indices, searched = splits.holdout, splits.search
        elif promise is not None:
            self.notes.append(f"other data than the search had: all {samples.count} samples are scored")
        try:
            parts = partition(quantize(graph, self.plan, self.ranges))
        except QuantizeError as error:
            raise QuantizeError(
                f"{error.message} The ranges were found for another model.", hint="Tune this model.", option="ranges"
            ) from error
        progress.stage("exact arithmetic", len(indices))
        found = [*self._scored(source, samples, indices, searched), *self._priced()]
        if promise is not None and known and promise.integers:
            progress.stage("comparing integers")
            found += _integers(promise, integer_digests(parts, samples, indices))
        elif promise is not None and promise.integers:
            found.append(CheckFinding(Subject.INTEGERS, CheckOutcome.SKIPPED, "recorded for other data"))
        return found

    def _samples(self) -> SampleSource:
        request = self.request
        found = Path(request.plan).parent / "preprocess.toml"
        if request.preprocess is None and found.is_file():
            request = replace(request, preprocess=found)
        steps = choose_preprocess(request, self.model.shipped, self.model.shipped).preprocess
        labels = None if request.labels is None else Path(request.labels)
        samples = keep_samples(open_samples(request.data, specs_of(self.model.shipped), steps, labels))
        return distinct_samples(samples)[0]

    def _scored(
        self, source: SampleSource, samples: SampleSet, indices: Sequence[int], searched: Sequence[int] | None
    ) -> Iterator[CheckFinding]:
        """Score the plan on some samples beside the float model; `searched` are those of the search, if they are here.

        What the outputs are, and in which range they lie, was told from those.
        """
        request, promise = self.request, self.promise
        name = request.metric or (None if promise is None else promise.metric)
        said = request.decisions or (None if promise is None or request.metric is not None else promise.decisions)
        shipped, graph = self.model.shipped, self.model.graph
        chosen = choose_metric(name, said, shipped, source if searched is None else source.subset(searched))
        data = EvaluationData(
            graph, samples, chosen.metric, chosen.identity, source=None if shipped is graph else shipped
        )
        sign = 1.0 if chosen.metric.higher_is_better else -1.0
        pipeline = Pipeline(data, self.ranges)
        float_score = pipeline.evaluate(_float_plan(graph), indices).score
        try:
            score = pipeline.evaluate(self.plan, indices).score
        except (CompileError, DeviceError) as error:
            yield CheckFinding(Subject.GOAL, CheckOutcome.CHANGED, f"it cannot be evaluated: {error}")
            return
        yield _goal(self._goal(), float_score, score, f"{chosen.metric.name} on {len(indices)} samples")
        if promise is None or promise.score is None:
            yield CheckFinding(Subject.SCORE, CheckOutcome.SKIPPED, "no score in exact arithmetic is recorded")
        elif searched is None:
            text = f"recorded for other data: {number_text(promise.score)}"
            yield CheckFinding(Subject.SCORE, CheckOutcome.SKIPPED, text)
        elif request.metric is not None and request.metric != promise.metric:
            yield CheckFinding(Subject.SCORE, CheckOutcome.SKIPPED, f"recorded with another metric: {promise.metric}")
        else:
            yield _score(sign * promise.score, score, sign)

    def _goal(self) -> Goal:
        request, promise = self.request, self.promise
        drop = request.max_drop or ("1%" if promise is None else promise.max_drop)
        least = request.min_score
        return parse_goal(drop, promise.min_score if least is None and promise is not None else least)

    def _priced(self) -> Iterator[CheckFinding]:
        promise = self.promise
        price = self.request.price
        if price.host is None and promise is not None:
            price = replace(price, host=promise.host)
        now = predicted_ns(self.model.graph, self.plan, price)
        if promise is None or promise.latency_ns is None or now is None:
            why = "nothing prices the plan" if now is None else f"none is recorded; now {time_text(now)}"
            yield CheckFinding(Subject.LATENCY, CheckOutcome.SKIPPED, why)
            return
        change = now / promise.latency_ns - 1 if promise.latency_ns else math.inf
        before, after = time_text(promise.latency_ns), time_text(now)
        if abs(change) <= _SAME:
            yield CheckFinding(Subject.LATENCY, CheckOutcome.SAME, f"{after} predicted, {_PRICED}")
            return
        outcome = CheckOutcome.CHANGED if change > 0 else CheckOutcome.NOTE
        text = f"{abs(change):.1%} {'slower' if change > 0 else 'faster'}, {_PRICED}"
        yield CheckFinding(Subject.LATENCY, outcome, text, "", before, after)


def _load_ranges(request: CheckRequest, plan: Path) -> Ranges:
    path = plan.parent / "ranges.json" if request.ranges is None else Path(request.ranges)
    if not path.is_file():
        raise DovetailError(
            f"{path}: no ranges beside the plan: nothing says how its integers are scaled.",
            hint="Keep ranges.json of the search beside it, or name the file.",
            option="ranges",
        )
    return load_ranges(path)


def _moved(plan: Plan, target: str | None) -> Plan:
    """Return the plan with everything that is not on the CPU on another target."""
    if target is None:
        return plan
    find_target(target)

    def place(old: Placement) -> Placement:
        return old if old.target == HOST else replace(old, target=target)

    overrides = {name: Override(place(item.placement), item.reason) for name, item in plan.overrides.items()}
    return replace(plan, default=place(plan.default), overrides=overrides)


def _float_plan(graph: Graph) -> Plan:
    return Plan(graph.digest, Placement(HOST, Precision.FP32))


def _goal(goal: Goal, float_score: float, score: float, what: str) -> CheckFinding:
    """Hold a score to the goal; scores are counted so that more is better."""
    loss, allowance = float_score - score, goal.allowance(float_score)
    within = loss <= allowance + _SAME and (goal.min_score is None or score >= goal.min_score - _SAME)
    least = "" if goal.min_score is None else f"; at least {goal.min_score:g} is demanded"
    figures = f"{what}: float {number_text(abs(float_score))}, the plan {number_text(abs(score))}"
    text = f"{figures}; loss {number_text(loss)}, {number_text(allowance)} allowed{least}"
    return CheckFinding(Subject.GOAL, CheckOutcome.SAME if within else CheckOutcome.CHANGED, text)


def _score(before: float, after: float, sign: float) -> CheckFinding:
    if abs(after - before) <= _SAME * max(1.0, abs(before)):
        return CheckFinding(Subject.SCORE, CheckOutcome.SAME, f"{number_text(sign * after)} on the same samples")
    worse = after < before
    texts = number_text(sign * before, 6), number_text(sign * after, 6)
    outcome = CheckOutcome.CHANGED if worse else CheckOutcome.NOTE
    return CheckFinding(Subject.SCORE, outcome, "worse" if worse else "better", "", *texts)


def _integers(promise: Promise, now: dict[str, str]) -> Iterator[CheckFinding]:
    changed = 0
    for name in dict.fromkeys((*promise.integers, *now)):
        before, after = promise.integers.get(name, ""), now.get(name, "")
        if before != after:
            changed += 1
            text = "other integers" if before and after else "only there now" if after else "not there any more"
            yield CheckFinding(Subject.INTEGERS, CheckOutcome.CHANGED, text, name, before[:12], after[:12])
    if not changed:
        yield CheckFinding(Subject.INTEGERS, CheckOutcome.SAME, f"{len(now)} of {len(now)} tensors are the same")
