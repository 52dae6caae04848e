"""The time of a search: when it is up the best plan so far is the answer, resumed and replayed runs agree on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.compare.task import callable_metric
from dovetail.data import split_samples
from dovetail.errors import SearchError
from dovetail.ir import AnyArray
from dovetail.plan import parse_placement
from dovetail.quantize import calibrate
from dovetail.search import Goal, TuneOptions, TuneRequest, tune
from dovetail.search.clock import HALF, WHOLE, SearchClock
from dovetail.search.context import SearchMemory
from dovetail.search.log import read_search_log
from dovetail.search.replay import replay
from dovetail.search.request import SilentSearch
from dovetail.search.selection import select
from dovetail.search.tune import run_search
from dovetail.testing.planted import labelled_samples, planted_detector

from .stages import Setting, convolutions, open_stages, weighed


def test_shares_of_the_time_are_over_once_that_much_was_used() -> None:
    clock = SearchClock(1.0)
    for _ in range(4):
        clock.add(2e8)
    assert (clock.is_up(HALF), clock.is_up()) == (True, False)
    clock.add(2e8)
    clock.add(2e8)
    assert clock.is_up()
    assert clock.ends == {HALF: 3, WHOLE: 5}
    assert clock.spent_s == pytest.approx(1.2)


def test_without_a_limit_time_is_never_up_and_none_is_no_limit() -> None:
    clock = SearchClock(None)
    clock.add(1e18)
    assert not clock.is_up(HALF)
    with pytest.raises(SearchError, match="0 s is no time"):
        SearchClock(0.0)


def test_a_replay_goes_by_what_was_used_and_not_by_time() -> None:
    played = SearchClock(1e-9, {HALF: 2, WHOLE: 3})
    ups = []
    for _ in range(3):
        played.add(1e9)
        ups.append((played.is_up(HALF), played.is_up()))
    assert ups == [(False, False), (True, False), (True, True)]
    never = SearchClock(1e-9, {})
    never.add(1e9)
    assert not never.is_up()


@pytest.mark.parametrize("units", [6, 80])
def test_when_time_is_up_the_best_plan_so_far_is_the_answer(units: int) -> None:
    """Each of the layers loses a little: everything raised passes, and there is no time for anything less."""
    weights = {f"n{number}": 0.4 / units for number in range(units)}
    setting = Setting(convolutions(units, 8), weighed(weights), goal=Goal(0.1), time_limit_s=1e-9)
    context, ledger = open_stages(setting)
    answer = select(context, ledger).answer
    assert answer.verdict.is_within
    assert len(answer.raised) == units
    assert len(ledger.trials) <= 12
    free, unlimited = open_stages(replace(setting, time_limit_s=None))
    assert free.prover is not None
    found = select(free, unlimited).answer
    assert found.verdict.is_within
    assert free.prover.latency_ns(found.placements) < free.prover.latency_ns(answer.placements)


def _right(outputs: dict[str, AnyArray], labels: dict[str, AnyArray]) -> AnyArray:
    off = np.abs(next(iter(outputs.values())) - labels["truth"])
    found: AnyArray = (off[:, 2:].max(axis=(1, 2, 3)) < 0.04) & (off[:, :2].max(axis=(1, 2, 3)) < 12)
    return found.astype(np.float64)


def _request(options: TuneOptions) -> TuneRequest:
    graph = planted_detector(1)
    source = labelled_samples(graph, 60, "a")
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=callable_metric(_right),  # type: ignore[arg-type]
        goal=Goal(0.1),
        low=parse_placement("vsi:v853@u8"),
        ladder=(parse_placement("vsi:v853@i16"),),
        options=options,
    )


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_a_search_whose_time_was_up_is_resumed_and_replayed_with_the_same_answer(share: float, tmp_path: Path) -> None:
    free = _request(TuneOptions())
    memory = SearchMemory.of(free)
    run_search(free, SilentSearch(), memory=memory)
    limit_s = share * memory.count.clock.spent_s
    log, journal = tmp_path / "log.jsonl", tmp_path / "journal.sqlite"
    request = _request(TuneOptions(journal=journal, log=log, time_limit_s=limit_s))
    cut = tune(request)
    assert any("beyond" in text for text in cut.cost.untried)
    assert read_search_log(log).ends().keys() == {HALF, WHOLE}
    resumed = tune(replace(request, options=replace(request.options, log=None)))
    assert resumed.plan == cut.plan
    assert resumed.evidence == cut.evidence
    assert resumed.cost.fresh_samples == 0
    played = replay(request, log)
    assert played.agrees, played.deviations
    assert played.result is not None
    assert played.result.plan == cut.plan
