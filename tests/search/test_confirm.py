"""A confirmation: everything that an answer rests on is evaluated again, and what wavers is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dovetail.plan import Plan
from dovetail.search.candidate import Candidate
from dovetail.search.confirm import confirm
from dovetail.search.context import SearchContext
from dovetail.search.culprits import find_culprits
from dovetail.search.ledger import Ledger
from dovetail.search.result import Evidence
from dovetail.search.tolerance import Tolerance

from .stages import FLOAT, WIDE, Setting, open_stages
from .test_culprits import LOW, chain, needs


class _Wavering:
    """Lose 0.2 for every culprit that is low, and from some moment on something else. Lists what is evaluated."""

    def __init__(self) -> None:
        self.instead: float | None = None
        self.evaluated: list[tuple[str, int]] = []
        self._loss = needs({"n1", "n3"}, WIDE, FLOAT)

    def __call__(self, plan: Plan, indices: Sequence[int]) -> float:
        self.evaluated.append((plan.digest, len(indices)))
        return float(self._loss(plan, indices)) if self.instead is None else self.instead


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
