"""Tune: the one loop from a float graph to a plan that meets its target."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial

from dovetail.data.kept import keep_samples
from dovetail.repair import HealedModel
from dovetail.search.acceptance import judge_unselected
from dovetail.search.confirm import confirm
from dovetail.search.context import Playback, SearchContext, SearchMemory, open_search
from dovetail.search.freeing import all_raised_misses, gates_instead, offer_gates
from dovetail.search.gate import check_gate, revise_gate
from dovetail.search.healing import Healer, HealingOutcome, healed_request
from dovetail.search.ledger import Ledger
from dovetail.search.log import SearchLog, open_log
from dovetail.search.offers import RepairOffer, settle, together, unpaid, with_repair
from dovetail.search.request import SilentSearch, TuneListener, TuneRequest
from dovetail.search.result import TuneResult
from dovetail.search.selection import select
from dovetail.search.splitting import offer_split
from dovetail.search.summary import log_answer, make_result


def tune(request: TuneRequest, listener: TuneListener | None = None) -> TuneResult:
    """Return the cheapest plan that meets the goal, as far as samples tell that did not select it.

    What can be healed is healed before anything is raised. Raises SearchError when the float model misses the goal or
    nothing can run low, DataError for unusable samples.
    """
    return run_search(request, listener or SilentSearch())


def run_search(
    request: TuneRequest,
    listener: TuneListener,
    playback: Playback | None = None,
    memory: SearchMemory | None = None,
) -> TuneResult:
    """Return the result of a search; with a playback nothing is evaluated that is not in it.

    The memory is for a caller who needs outputs again.
    """
    # Several contexts look at the samples: they are read once for all.
    request = replace(request, samples=keep_samples(request.samples))
    memory = memory or SearchMemory.of(request, playback)
    with open_log(request.options.log, None if playback is None else playback.lines) as log:
        result = _Run(listener, log, playback, memory).result(request)
        log_answer(log, result, memory.count.clock)
        return result


@dataclass(frozen=True, slots=True)
class _Unpaid:
    """The answer without repairs that cost latency, and those that promise anything."""

    result: TuneResult
    offers: tuple[RepairOffer, ...]
    looks: int


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: searches over a graph as shipped, healed, and repaired at a price, with one log."""

    listener: TuneListener
    log: SearchLog
    playback: Playback | None
    memory: SearchMemory
    started: float = field(default_factory=time.perf_counter)

    def result(self, request: TuneRequest) -> TuneResult:
        """Return the answer."""
        with self._open(request) as context:
            if not request.options.repairs or _low_is_within(context):
                return self._searched(context, Ledger(context))
            outcome = Healer(context, self.playback).heal()
            unpaid = None if outcome.repaired.records else self._first(context, request, outcome)
        if unpaid is None:
            with self._open(healed_request(request, outcome.repaired, outcome.needed)) as context:
                unpaid = self._first(context, request, outcome)
        result, looks = unpaid.result, unpaid.looks
        for offer in unpaid.offers:
            if self.memory.count.clock.is_up():
                break
            again = healed_request(request, offer.repaired, outcome.needed)
            plans = min(again.options.max_plans, again.options.policy.repair.paid_plans)
            with self._open(replace(again, options=replace(again.options, max_plans=plans))) as context:
                ledger = Ledger(context, looks)
                result = settle(context, offer, result, partial(self._searched, context, ledger))
                looks = ledger.looks
        return result

    def _open(self, request: TuneRequest) -> AbstractContextManager[SearchContext]:
        return open_search(request, self.listener, self.log, self.playback, self.memory)

    def _first(self, context: SearchContext, request: TuneRequest, outcome: HealingOutcome) -> _Unpaid:
        """Return the first answer on a graph that was healed as far as that costs nothing; the request is as shipped.

        Gates are freed first where no plan without that can be selected; else what costs latency is offered for later.
        """
        ledger, repaired = Ledger(context), outcome.repaired if outcome.repaired.records else None
        shipped = HealedModel(request.graph, request.calibration)
        offer = gates_instead(context, ledger, self.playback, shipped)
        freed = None if offer is None else self._freed(request, outcome, offer, ledger.looks)
        if freed is not None and freed.verdict.is_within:
            return _Unpaid(freed, (), freed.looks)
        ledger.looks_before += 0 if freed is None else freed.looks - ledger.looks
        result = replace(self._searched(context, ledger), repaired=repaired, healing=outcome.healing)
        result, split = offer_split(context, self.playback, result)
        if freed is not None and offer is not None:
            reason = f"the plan with it is {freed.verdict.value} too"
            result = replace(unpaid(result, offer.trial.kind, reason), cost=together(freed.cost, result.cost))
            return _Unpaid(result, () if split is None else (split,), ledger.looks)
        result, gates = offer_gates(context, self.playback, shipped, result)
        return _Unpaid(result, tuple(item for item in (split, gates) if item is not None), ledger.looks)

    def _freed(
        self, request: TuneRequest, outcome: HealingOutcome, offer: RepairOffer, looks: int
    ) -> TuneResult | None:
        """Return the answer with a repair that costs latency; None where everything raised misses with it too."""
        with self._open(healed_request(request, offer.repaired, outcome.needed)) as context:
            ledger = Ledger(context, looks)
            if all_raised_misses(context, ledger):
                return None
            return with_repair(self._searched(context, ledger), offer, outcome.healing)

    def _searched(self, context: SearchContext, ledger: Ledger) -> TuneResult:
        """Return the result of a search over one graph."""
        context.listener.stage("gate")
        gate = check_gate(context, ledger)
        selection = select(context, ledger)
        gate = revise_gate(gate, context, ledger, selection.answer)
        answer, events = confirm(context, ledger, selection.answer)
        selection = replace(selection, answer=answer)
        return make_result(context, ledger, gate, selection, events, time.perf_counter() - self.started)


def _low_is_within(context: SearchContext) -> bool:
    """Tell whether everything low meets the goal, as far as samples tell."""
    context.listener.stage("gate")
    return judge_unselected(context, Ledger(context), context.candidate({})).verdict.is_within
