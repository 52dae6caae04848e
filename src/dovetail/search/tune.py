"""Tune: the one loop from a float graph to a plan that meets its target."""

from __future__ import annotations

import time
from dataclasses import replace

from dovetail.data.kept import keep_samples
from dovetail.search.acceptance import judge_unselected
from dovetail.search.confirm import confirm
from dovetail.search.context import Playback, SearchContext, SearchMemory, open_search
from dovetail.search.gate import check_gate, revise_gate
from dovetail.search.healing import Healer, healed_request
from dovetail.search.ledger import Ledger
from dovetail.search.log import open_log
from dovetail.search.request import SilentSearch, TuneListener, TuneRequest
from dovetail.search.result import TuneResult
from dovetail.search.selection import select
from dovetail.search.summary import make_result


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
    started = time.perf_counter()
    # Several contexts look at the samples: they are read once for all.
    request = replace(request, samples=keep_samples(request.samples))
    memory = memory or SearchMemory.of(request)
    with open_log(request.options.log, None if playback is None else playback.lines) as log:
        with open_search(request, listener, log, playback, memory) as context:
            if not request.options.repairs or _low_is_within(context):
                return _searched(context, started)
            outcome = Healer(context, playback).heal()
            if not outcome.healing.trials:
                return replace(_searched(context, started), healing=outcome.healing)
        with open_search(healed_request(request, outcome.repaired), listener, log, playback, memory) as context:
            return replace(_searched(context, started), repaired=outcome.repaired, healing=outcome.healing)


def _low_is_within(context: SearchContext) -> bool:
    """Tell whether everything low meets the goal, as far as samples tell."""
    context.listener.stage("gate")
    return judge_unselected(context, Ledger(context), context.candidate({})).verdict.is_within


def _searched(context: SearchContext, started: float) -> TuneResult:
    """Return the result of a search over one graph."""
    ledger = Ledger(context)
    context.listener.stage("gate")
    gate = check_gate(context, ledger)
    selection = select(context, ledger)
    gate = revise_gate(gate, context, ledger, selection.answer)
    answer, events = confirm(context, ledger, selection.answer)
    selection = replace(selection, answer=answer)
    return make_result(context, ledger, gate, selection, events, time.perf_counter() - started)
