"""Proposals: in which order candidates go to the hold-out split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain as chained
from itertools import combinations, islice

import pytest

from dovetail.plan import Limits, Plan, Recipe
from dovetail.search.proposals import propose
from dovetail.search.tolerance import Tolerance

from .stages import FLOAT, WIDE, Setting, open_stages
from .test_culprits import LOW, chain, needs


def test_where_only_the_last_rung_helps_the_strictest_round_is_still_the_first() -> None:
    """Of what two units lose 0.27, only floats win it back, and a loss of 0.07 is within the goal."""
    lost = {"n1": 0.2, "n3": 0.07}

    def loss(plan: Plan, indices: Sequence[int]) -> float:
        return sum(amount for unit, amount in lost.items() if plan.placement(unit) != FLOAT)

    context, ledger = open_stages(Setting(chain(5), loss, low=LOW, priced=False))
    candidates = propose(context, ledger, [Tolerance(0.05), Tolerance(0.08)])
    first, second = islice(candidates, 2)
    assert first.placements == {"n1": FLOAT, "n3": FLOAT}
    assert second.placements == {"n1": FLOAT}


def test_rounds_end_with_what_is_raised_without_proof_by_the_first_rung() -> None:
    """The last rung is for what only it can help: here nothing the search split shows is left to raise."""

    def loss(plan: Plan, indices: Sequence[int]) -> float:
        return 0.05 if plan.placement("n1") != FLOAT and plan.placement("n1") != WIDE else 0.0

    context, ledger = open_stages(Setting(chain(5), loss, low=LOW, ladder=(WIDE, FLOAT), priced=False))
    first, *more = propose(context, ledger, [Tolerance(0.01)])
    assert first.placements == {"n1": WIDE}
    places = [set(candidate.placements.values()) for candidate in more]
    shares = len(context.policy.holdout.shares)
    assert places[:shares] == [{WIDE}] * shares
    assert all(FLOAT in item for item in places[shares:])
    assert len(places) == 2 * shares


@pytest.mark.parametrize(("latency_ns", "keeps"), [(1e12, True), (1.0, False), (None, True)])
def test_where_there_are_limits_nothing_is_raised_without_proof(latency_ns: float | None, keeps: bool) -> None:
    wishes = None if latency_ns is None else Recipe(LOW, (WIDE,), limits=Limits(latency_ns=latency_ns))
    loss = needs({"n1"}, WIDE)
    context, ledger = open_stages(Setting(chain(5), loss, low=LOW, wishes=wishes))
    first, *more = propose(context, ledger, [Tolerance(0.01)])
    assert first.within_limits is keeps
    if keeps:
        assert first.placements["n1"] == WIDE
    assert bool(more) == (latency_ns is None)


def test_when_the_budget_is_spent_only_what_was_tried_is_proposed() -> None:
    """The hold-out split refuses all: after the first round the search goes on with plans that it has judged."""

    def loss(plan: Plan, indices: Sequence[int]) -> float:
        return 0.05 if plan.placement("n1") == LOW else 0.0

    context, ledger = open_stages(Setting(chain(5), loss, low=LOW, priced=False, max_plans=16))
    candidates = propose(context, ledger, [Tolerance(0.01), Tolerance(0.02), Tolerance(0.03)])
    first = next(candidates)
    assert first.placements == {"n1": WIDE}
    for units in chained.from_iterable(combinations(context.order, size) for size in (2, 3, 4)):
        ledger.judge(context.raised(units, top=False), context.tolerance)
    assert ledger.is_exhausted
    ledger.refused[first.plan.digest] = first
    before = len(ledger.trials)
    second, third = islice(candidates, 2)
    assert len(ledger.trials) == before
    assert second.placements == third.placements == {"n1": WIDE}
