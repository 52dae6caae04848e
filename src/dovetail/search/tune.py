"""Tune: the one loop from a float graph to a plan that meets its target."""

from __future__ import annotations

import time
from dataclasses import replace

from dovetail.search.confirm import confirm
from dovetail.search.context import Playback, open_search
from dovetail.search.gate import check_gate, revise_gate
from dovetail.search.ledger import Ledger
from dovetail.search.request import SilentSearch, TuneListener, TuneRequest
from dovetail.search.result import TuneResult
from dovetail.search.selection import select
from dovetail.search.summary import make_result


def tune(request: TuneRequest, listener: TuneListener | None = None) -> TuneResult:
    """Return the cheapest plan that meets the goal, as far as samples tell that did not select it.

    Raises SearchError when the float model misses the goal or nothing can run low, DataError for unusable samples.
    """
    return run_search(request, listener or SilentSearch())


def run_search(request: TuneRequest, listener: TuneListener, playback: Playback | None = None) -> TuneResult:
    """Return the result of a search; with a playback nothing is evaluated that is not in it."""
    started = time.perf_counter()
    with open_search(request, listener, playback) as context:
        ledger = Ledger(context)
        listener.stage("gate")
        gate = check_gate(context, ledger)
        selection = select(context, ledger)
        gate = revise_gate(gate, context, ledger, selection.answer)
        answer, events = confirm(context, ledger, selection.answer)
        selection = replace(selection, answer=answer)
        return make_result(context, ledger, gate, selection, events, time.perf_counter() - started)
