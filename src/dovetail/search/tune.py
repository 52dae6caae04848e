"""Tune: the one loop from a float graph to a plan that meets its target."""

from __future__ import annotations

import time
from dataclasses import replace

from dovetail.search.acceptance import ask_holdout
from dovetail.search.candidate import Candidate
from dovetail.search.confirm import confirm
from dovetail.search.context import Playback, SearchContext, open_search
from dovetail.search.gate import check_gate, revise_gate
from dovetail.search.healing import Healer, healed_request
from dovetail.search.holdout import settle
from dovetail.search.ledger import Ledger
from dovetail.search.log import open_log
from dovetail.search.proposals import propose
from dovetail.search.request import SilentSearch, TuneListener, TuneRequest
from dovetail.search.result import GateVerdict, TuneResult
from dovetail.search.summary import make_result
from dovetail.search.tolerance import round_tolerances


def tune(request: TuneRequest, listener: TuneListener | None = None) -> TuneResult:
    """Return the plan that raises a 1-minimal set of units and meets the goal on samples that the search never saw.

    Raises SearchError when the float model misses the goal or nothing can run low, DataError for unusable samples.
    """
    return run_search(request, listener or SilentSearch())


def run_search(request: TuneRequest, listener: TuneListener, playback: Playback | None = None) -> TuneResult:
    """Return the result of a search; with a playback nothing is evaluated that is not in it."""
    started = time.perf_counter()
    with open_log(request.options.log, None if playback is None else playback.lines) as log:
        with open_search(request, listener, log, playback) as context:
            listener.stage("gate")
            if not request.options.repairs or Ledger(context).judge({}, context.tolerance).passed:
                return _searched(context, started)
            outcome = Healer(context, playback).heal()
            if not outcome.healing.trials:
                return replace(_searched(context, started), healing=outcome.healing)
        with open_search(healed_request(request, outcome.repaired), listener, log, playback) as context:
            return replace(_searched(context, started), repaired=outcome.repaired, healing=outcome.healing)


def _searched(context: SearchContext, started: float) -> TuneResult:
    """Return the result of a search over one graph."""
    ledger = Ledger(context)
    context.listener.stage("gate")
    gate = check_gate(context, ledger)
    candidate = _accepted_candidate(context, ledger, gate.verdict)
    gate = revise_gate(gate, context, ledger, candidate)
    candidate, events = confirm(context, ledger, candidate)
    return make_result(context, ledger, gate, candidate, events, time.perf_counter() - started)


def _accepted_candidate(context: SearchContext, ledger: Ledger, verdict: GateVerdict) -> Candidate:
    """Return the first candidate that the hold-out split accepts, else the one that loses least there.

    A candidate comes from `propose`: culprits, minimised, then the cheapest plan, with more and more kept back.
    """
    oracle, allowance = context.search, context.tolerance.allowance
    low_passes = verdict is GateVerdict.NOTHING_TO_DO
    tolerances = round_tolerances(allowance, oracle.facts, low_passes, context.policy.tolerances)
    for candidate in propose(context, ledger, tolerances):
        if candidate.plan.digest in ledger.refused:
            continue
        context.listener.stage("hold-out")
        judged = ask_holdout(context, ledger, candidate)
        settled = settle(context, ledger, judged, (context.tolerance, *tolerances))
        if settled.accepted:
            return settled
        ledger.refused[judged.plan.digest] = judged
        context.listener.stage(f"{judged.summary}: searching again with more kept back")
    return max(ledger.refused.values(), key=lambda item: item.holdout_gain)
