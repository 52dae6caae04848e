"""Tune: the one loop from a float graph to a plan that meets its target."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from dovetail.data.kept import keep_samples
from dovetail.search.acceptance import judge_unselected
from dovetail.search.confirm import confirm
from dovetail.search.context import Playback, SearchContext, SearchMemory, open_search
from dovetail.search.gate import check_gate, revise_gate
from dovetail.search.healing import Healer, HealingOutcome, healed_request
from dovetail.search.ledger import Ledger
from dovetail.search.log import SearchLog, open_log
from dovetail.search.request import SilentSearch, TuneListener, TuneRequest
from dovetail.search.result import TuneResult
from dovetail.search.selection import select
from dovetail.search.splitting import SplitOffer, offer_split, settle_split
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
    memory = memory or SearchMemory.of(request)
    with open_log(request.options.log, None if playback is None else playback.lines) as log:
        result = _Run(listener, log, playback, memory).result(request)
        log_answer(log, result)
        return result


@dataclass(frozen=True, slots=True)
class _Unsplit:
    """The answer before nodes are split, and where they would be, if that promises anything."""

    result: TuneResult
    offer: SplitOffer | None
    looks: int


@dataclass(frozen=True, slots=True)
class _Run:
    """One run: searches over a graph as shipped, healed and split, with one log."""

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
            unsplit = None if outcome.repaired.records else self._unsplit(context, outcome)
        if unsplit is None:
            with self._open(healed_request(request, outcome.repaired)) as context:
                unsplit = self._unsplit(context, outcome)
        offer, result = unsplit.offer, unsplit.result
        if offer is None:
            return result
        again = healed_request(request, offer.repaired)
        plans = min(again.options.max_plans, again.options.policy.repair.split_plans)
        with self._open(replace(again, options=replace(again.options, max_plans=plans))) as context:
            ledger = Ledger(context, unsplit.looks)
            return settle_split(context, offer, result, lambda: self._searched(context, ledger))

    def _open(self, request: TuneRequest) -> AbstractContextManager[SearchContext]:
        return open_search(request, self.listener, self.log, self.playback, self.memory)

    def _unsplit(self, context: SearchContext, outcome: HealingOutcome) -> _Unsplit:
        """Return the answer on a graph that was healed as far as that costs nothing."""
        ledger = Ledger(context)
        repaired = outcome.repaired if outcome.repaired.records else None
        result = replace(self._searched(context, ledger), repaired=repaired, healing=outcome.healing)
        result, offer = offer_split(context, self.playback, result)
        return _Unsplit(result, offer, ledger.looks)

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
