"""A confirmation: everything that an answer rests on is evaluated again, and what wavers is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dovetail.plan import Placement, Plan
from dovetail.search.acceptance import judge_selected
from dovetail.search.candidate import Candidate
from dovetail.search.cheapest import cheapest
from dovetail.search.confirm import _agree, confirm, contradictions
from dovetail.search.context import SearchContext
from dovetail.search.culprits import find_culprits
from dovetail.search.ledger import Ledger
from dovetail.search.result import Evidence
from dovetail.search.tolerance import Tolerance
from dovetail.search.trial import Status, Trial

from .stages import FLOAT, WIDE, Setting, open_stages
from .test_culprits import LOW, chain, needs


class _Wavering:
    """Lose 0.2 for every culprit that is low, and from some moment on something else. Lists what is evaluated."""

    def __init__(self) -> None:
        self.instead: float | None = None
        self.evaluated: list[tuple[str, int]] = []
        self.loss = needs({"n1", "n3"}, WIDE, FLOAT)

    def __call__(self, plan: Plan, indices: Sequence[int]) -> float:
        self.evaluated.append((plan.digest, len(indices)))
        return float(self.loss(plan, indices)) if self.instead is None else self.instead


def _found(loss: _Wavering, times: int) -> tuple[SearchContext, Ledger, Candidate]:
    context, ledger = open_stages(Setting(chain(6), loss, low=LOW, priced=False))
    candidate = find_culprits(context, ledger, Tolerance(0.1), climbs=True)
    assert candidate is not None
    assert {item.unit for item in candidate.evidence} == {"n1", "n3"}
    options = replace(context.request.options, confirm=times)
    return replace(context, request=replace(context.request, options=options)), ledger, candidate


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_plan_and_every_removal_are_evaluated_again_as_often_as_asked(times: int) -> None:
    loss = _Wavering()
    context, ledger, candidate = _found(loss, times)
    before = len(loss.evaluated)
    assert confirm(context, ledger, candidate) == (candidate, ())
    again = loss.evaluated[before:]
    assert sum(samples for digest, samples in again if digest == candidate.plan.digest) == 30 * times
    assert len({digest for digest, _ in again}) == (3 if times else 0)


def test_a_plan_that_fails_the_second_time_is_said() -> None:
    loss = _Wavering()
    context, ledger, candidate = _found(loss, 1)
    loss.instead = 0.15
    _, events = confirm(context, ledger, candidate)
    assert events[0] == "the plan passed and now does not: 0.85 on 30 samples"


def test_a_plan_is_evaluated_again_on_all_samples_however_much_it_loses() -> None:
    loss = _Wavering()
    context, ledger, candidate = _found(loss, 1)
    loss.instead = 1.0
    _, events = confirm(context, ledger, candidate)
    assert events[0] == "the plan passed and now does not: 0 on 30 samples"


def test_a_removal_is_evaluated_again_without_the_unit_that_it_is_evidence_of() -> None:
    """The second time n3 does no harm any more, and n1 does."""
    loss = _Wavering()
    context, ledger, candidate = _found(loss, 1)
    loss.loss = needs({"n1"}, WIDE, FLOAT)
    confirmed, events = confirm(context, ledger, candidate)
    assert [event.partition(":")[0] for event in events] == ["without 'n3' it failed and now passes"]
    assert [item.unit for item in confirmed.evidence] == ["n1"]


def test_a_unit_that_was_not_needed_the_second_time_is_evidence_no_more() -> None:
    loss = _Wavering()
    context, ledger, candidate = _found(loss, 2)
    loss.instead = 0.0
    confirmed, events = confirm(context, ledger, candidate)
    assert confirmed.evidence == ()
    failed = {f"without '{unit}' it failed and now passes" for unit in ("n1", "n3")}
    assert {event.partition(":")[0] for event in events[:2]} == failed


@pytest.mark.parametrize("wavers", [False, True])
def test_a_companion_that_passes_again_is_no_surprise(wavers: bool) -> None:
    loss, tolerance = _Wavering(), Tolerance(0.1)
    context, ledger, candidate = _found(loss, 2)
    raised = {**candidate.raised, **context.raised(["n2"], top=False)}
    ledger.judge(raised, tolerance)
    removals = {unit: {name: item for name, item in raised.items() if name != unit} for unit in raised}
    evidence = tuple(Evidence(unit, ledger.judge(rest, tolerance)) for unit, rest in removals.items())
    assert {item.unit for item in evidence if item.trial.passed} == {"n2"}
    wider = replace(context.candidate(raised, evidence), companions=frozenset({"n2"}))
    if wavers:
        loss.instead = 0.15
    confirmed, events = confirm(context, ledger, wider)
    assert confirmed.evidence == evidence
    said = "without 'n2' it scores otherwise: 1 on 30 samples, then 0.85 on 30 samples"
    assert (said in events) == wavers
    assert bool(events) == wavers


def test_a_person_reads_of_twenty_contradictions_at_most() -> None:
    units = [f"u{index:02d}" for index in range(30)]
    trial = Trial("plan", (), Status.PASS, 0.5, 1.0, 30, 40)
    low: dict[str, Placement] = {units[0]: WIDE}
    failing = [
        ({**low, **dict.fromkeys(units[1 : 2 + index], WIDE)}, replace(trial, status=Status.FAIL, score=index / 100))
        for index in range(25)
    ]
    texts = contradictions([(low, trial), *failing], dict.fromkeys(units, (WIDE, FLOAT)))
    assert texts[:4] == [
        "1 raised units pass, but not with u01 raised too: 0 on 30 samples",
        "1 raised units pass, but not with u01, u02 raised too: 0.01 on 30 samples",
        "1 raised units pass, but not with u01, u02, u03 raised too: 0.02 on 30 samples",
        "1 raised units pass, but not with u01, u02, u03 raised too: 0.03 on 30 samples",
    ]
    assert len(texts) == 20
    assert len(contradictions([(low, trial), *failing[:20]], dict.fromkeys(units, (WIDE, FLOAT)))) == 20
    assert len(contradictions([(low, trial), *failing[:19]], dict.fromkeys(units, (WIDE, FLOAT)))) == 19


def test_a_higher_rung_of_a_unit_is_more_and_a_lower_one_is_not() -> None:
    trial = Trial("plan", (), Status.PASS, 0.5, 1.0, 30, 40)
    worse, untested = replace(trial, status=Status.FAIL), replace(trial, status=Status.CANNOT_TEST)
    ladders = dict.fromkeys("ab", (WIDE, FLOAT))
    low: dict[str, Placement] = {"a": WIDE}
    (text,) = contradictions([(low, trial), ({"a": FLOAT}, worse)], ladders)
    assert text == "1 raised units pass, but not with a raised too: 0.5 on 30 samples"
    assert contradictions([({"a": FLOAT}, trial), ({"a": WIDE, "b": WIDE}, worse)], ladders) == []
    assert contradictions([(low, trial), ({"a": FLOAT}, untested)], ladders) == []
    (everything,) = contradictions([({}, trial), ({"b": WIDE}, worse)], ladders)
    assert everything.startswith("0 raised units pass, but not with b raised too")


def test_what_wavers_is_not_accepted_and_its_bound_not_gone_by() -> None:
    loss = _Wavering()
    context, ledger = open_stages(Setting(chain(6), loss, low=LOW))
    candidate = find_culprits(context, ledger, Tolerance(0.1), climbs=True)
    assert candidate is not None
    assert context.prover is not None
    candidate = cheapest(context, ledger, candidate, Tolerance(0.1), context.prover)
    candidate = judge_selected(context, ledger, candidate)
    assert candidate.verdict.is_within
    assert candidate.certificate is not None
    assert candidate.certificate.monotone
    once, twice = (
        replace(context, request=replace(context.request, options=replace(context.request.options, confirm=times)))
        for times in (1, 2)
    )
    assert confirm(once, ledger, candidate) == (candidate, ())
    loss.instead = 0.15
    wavering, events = confirm(twice, ledger, candidate)
    assert str(wavering.assessment) == f"missed: the oracle wavers: {events[0]}"
    assert wavering.certificate is not None
    assert not wavering.certificate.monotone


@pytest.mark.parametrize(
    ("samples", "score", "agree"), [(30, 0.5, True), (30, 0.4, False), (20, 0.4, True), (40, 0.4, True)]
)
def test_scores_of_as_many_samples_have_to_be_the_same(samples: int, score: float, agree: bool) -> None:
    first = Trial("plan", (), Status.FAIL, 0.5, 1.0, 30, 40)
    assert _agree(first, replace(first, samples=samples, score=score)) is agree
    assert not _agree(first, replace(first, status=Status.PASS))
