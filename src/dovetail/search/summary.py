"""From what the stages gave to the result that a person reads."""

from __future__ import annotations

from dataclasses import replace

from dovetail.search.candidate import Candidate
from dovetail.search.clock import SearchClock
from dovetail.search.context import SearchContext
from dovetail.search.front import pareto_front, pareto_points
from dovetail.search.ledger import Ledger
from dovetail.search.log import SearchLog
from dovetail.search.result import Culprit, Gate, SplitScores, SurerPlan, TuneCost, TuneResult
from dovetail.search.selection import Selection
from dovetail.search.tolerance import Tolerance


def make_result(
    context: SearchContext,
    ledger: Ledger,
    gate: Gate,
    selection: Selection,
    events: tuple[str, ...],
    elapsed_s: float,
) -> TuneResult:
    """Return the result."""
    request, candidate = context.request, selection.answer
    latencies = _latencies(context, ledger)
    culprits, companions = _culprits(context, candidate)
    surer = None if selection.surer is None else _surer(context, selection.surer)
    search, holdout = _split_scores(context, gate, candidate)
    return TuneResult(
        plan=candidate.plan,
        assessment=candidate.assessment,
        gate=gate,
        summary="; ".join(
            (str(candidate.assessment), *(_beside(surer, candidate) if surer else ()), *candidate.remarks)
        ),
        goal=request.goal,
        metric=request.metric.name,
        higher_is_better=request.metric.higher_is_better,
        low=request.low,
        unit_count=len(context.space.units),
        culprits=culprits,
        companions=companions,
        evidence=tuple(replace(item, latency_ns=latencies.get(item.trial.plan_digest)) for item in candidate.evidence),
        search=search,
        holdout=holdout,
        pareto=pareto_points(ledger.trials, candidate.plan.digest),
        front=pareto_front(ledger.trials, latencies, candidate.plan.digest),
        surer=surer,
        certificate=candidate.certificate,
        looks=ledger.looks,
        events=events,
        cost=_cost(context, ledger, elapsed_s),
    )


def _latencies(context: SearchContext, ledger: Ledger) -> dict[str, float]:
    """Return what every plan that was judged takes, by its digest; nothing where nothing was priced."""
    prover = context.prover
    if prover is None:
        return {}
    return {digest: prover.latency_ns(raised) for digest, raised in ledger.placements().items()}


def _surer(context: SearchContext, candidate: Candidate) -> SurerPlan:
    latency_ns = None if context.prover is None else context.prover.latency_ns(candidate.placements)
    return SurerPlan(candidate.plan, len(candidate.raised), candidate.assessment, latency_ns)


def _beside(surer: SurerPlan, answer: Candidate) -> tuple[str]:
    """Return what is said of a plan beside the answer."""
    price = "" if surer.latency_ns is None else f" and takes {surer.latency_ns / 1e6:.4g} ms"
    if not answer.verdict.is_within:
        told = f"the cheapest plan within it raises {surer.raised} units{price} ({surer.assessment})"
        return (f"{told}, which these samples do not show to be worth it",)
    return (f"the cheapest sure plan that was tried raises {surer.raised} units{price} ({surer.assessment})",)


def _culprits(context: SearchContext, candidate: Candidate) -> tuple[tuple[Culprit, ...], tuple[Culprit, ...]]:
    """Return the culprits and their companions."""
    units, graph = context.space.units, context.request.graph
    raised = [
        Culprit(unit, units[unit].nodes, graph.node(unit).op, override.placement, override.reason)
        for unit, override in candidate.raised.items()
    ]
    return (
        tuple(item for item in raised if item.unit not in candidate.companions),
        tuple(item for item in raised if item.unit in candidate.companions),
    )


def _split_scores(context: SearchContext, gate: Gate, candidate: Candidate) -> tuple[SplitScores, SplitScores]:
    """Return the scores on the search split and on the hold-out."""
    acceptance = candidate.acceptance
    assert acceptance is not None
    nothing = Tolerance(0.0)
    tuned = context.search.judge(candidate.plan, tuple(candidate.raised), nothing, race=False)
    low = gate.checks[0].trial
    search = SplitScores(
        "search",
        context.search.sample_count,
        context.search.float_score,
        low.score,
        tuned.score,
        low_samples=low.samples,
        tuned_samples=tuned.samples,
    )
    low, held = context.holdout.judge(context.space.base, (), nothing, race=False), acceptance.trial
    holdout = SplitScores(
        "holdout",
        held.samples_total,
        low.float_score if low.complete else held.float_score,
        low.score,
        held.score,
        held.score if acceptance.exact else None,
        low.samples,
        held.samples,
    )
    return search, holdout


def _cost(context: SearchContext, ledger: Ledger, elapsed_s: float) -> TuneCost:
    fresh, recalled = context.fast.count.fresh_samples, context.fast.count.recalled_samples
    early = context.search.rejected_early + context.holdout.rejected_early
    full = (fresh + recalled) / context.search.sample_count
    alpha, clock, untried = context.policy.race.alpha, context.clock, tuple(ledger.untried)
    if clock.is_up():
        untried = (f"whatever evaluations would show beyond {clock.limit_s:g} s", *untried)
    return TuneCost(full, fresh, recalled, len(ledger.trials), elapsed_s, early, alpha, untried)


def log_answer(log: SearchLog, result: TuneResult, clock: SearchClock) -> None:
    """Write the last lines of the log."""
    if clock.ends:
        log.write("time", ends=[[share, used] for share, used in clock.ends.items()])
    for text in result.events:
        log.write("event", text=text)
    raised = {item.unit: str(item.placement) for item in result.raised}
    log.write(
        "answer",
        outcome=result.verdict.value,
        verdict=result.gate.verdict.name,
        plan=result.plan.digest,
        raised=raised,
        one_minimal=result.one_minimal,
    )
