"""Acceptance: the loss on the hold-out split, and its bound on new samples where the goal asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dovetail.errors import SearchError
from dovetail.ir import AnyArray
from dovetail.plan import Plan
from dovetail.search import Goal, parse_goal
from dovetail.search.acceptance import accept, ask_holdout
from dovetail.search.candidate import Acceptance

from .stages import Setting, open_stages
from .test_culprits import chain


def _accept(
    held: AnyArray, goal: Goal, searched: AnyArray | None = None, set_level: bool = False, best: float = 1.0
) -> Acceptance:
    """Judge a plan that loses as given on the hold-out split, and on the search split too or as given there."""
    searched = held if searched is None else searched
    losses = np.concatenate([searched, held])
    setting = Setting(
        chain(2),
        lambda plan, indices: losses[list(indices)],
        goal=goal,
        searched=len(searched),
        held=len(held),
        priced=False,
        best=best,
        set_level=set_level,
    )
    context, _ = open_stages(setting)
    return accept(context, context.space.base)


def _lost(count: int, of: int) -> AnyArray:
    losses = np.zeros(of)
    losses[np.linspace(3, of - 3, count).astype(int)] = 1.0
    return losses


def test_a_loss_within_the_goal_is_accepted_though_its_bound_is_not() -> None:
    losses = _lost(4, 200)
    accepted = _accept(losses, Goal(0.03))
    assert accepted.accepted
    assert accepted.bound == pytest.approx(0.0544, abs=1e-3)
    sure = _accept(losses, Goal(0.03, confident=True))
    assert not sure.accepted
    assert sure.summary == "hold-out loss 0.02 within 0.03, but its bound is 0.05436"


def test_a_plan_that_is_better_than_float_has_lost_nothing() -> None:
    accepted = _accept(np.full(60, -0.25), Goal(0.03), best=0.5)
    assert accepted.accepted
    assert accepted.summary == "hold-out loss 0 within 0.03"


def test_many_samples_make_the_same_share_certain() -> None:
    assert _accept(_lost(40, 2000), Goal(0.03, confident=True)).accepted


@pytest.mark.parametrize("count", [2, 10, 60, 98])
def test_a_few_samples_without_loss_make_nobody_confident(count: int) -> None:
    assert _accept(np.zeros(count), Goal(0.03)).accepted
    refused = _accept(np.zeros(count), Goal(0.03, confident=True))
    assert not refused.accepted
    assert refused.bound is not None
    assert refused.bound > 0.03
    assert _accept(np.zeros(99), Goal(0.03, confident=True)).accepted


def test_without_scores_of_samples_nobody_can_be_confident() -> None:
    assert _accept(_lost(1, 200), Goal(0.03), set_level=True).accepted
    unknown = _accept(_lost(1, 200), Goal(0.03, confident=True), set_level=True)
    assert not unknown.accepted
    assert unknown.summary.endswith("its bound is unknown: samples have no scores, or none within 0 and 1")


def test_where_nothing_limits_what_a_sample_loses_nobody_can_be_confident() -> None:
    """An error, negated: a sample that was not drawn may lose anything."""
    plain = _accept(np.zeros(2000), Goal(0.03), best=-1.0)
    assert (plain.accepted, plain.bound, plain.estimate) == (True, None, None)
    assert not _accept(np.zeros(2000), Goal(0.03, confident=True), best=-1.0).accepted


def test_a_hold_out_that_is_sure_by_luck_makes_nobody_confident() -> None:
    lucky, goal = _accept(_lost(0, 200), Goal(0.03), _lost(20, 200)), Goal(0.03, confident=True)
    assert lucky.accepted
    assert lucky.losses is not None
    assert (len(lucky.losses), lucky.losses.sum()) == (400, 20)
    refused = _accept(_lost(0, 200), goal, _lost(20, 200))
    assert not refused.accepted
    assert refused.bound == pytest.approx(0.0149, abs=1e-4)
    assert refused.summary.endswith("but both splits together give 0.08122 for its bound")
    assert _accept(_lost(0, 200), goal, _lost(2, 200)).accepted


def test_the_bound_is_of_the_hold_out_and_the_estimate_of_both_splits() -> None:
    one = _accept(_lost(4, 200), Goal(0.03), _lost(0, 200))
    other = _accept(_lost(4, 200), Goal(0.03), _lost(8, 200))
    assert one.bound == other.bound
    assert one.estimate is not None
    assert other.estimate is not None
    assert one.bound is not None
    assert one.estimate < one.bound < other.estimate


def test_a_goal_says_that_it_is_confident() -> None:
    assert str(parse_goal("1%", confident=True)) == "drop at most 0.01 x float, with 95 % confidence"
    assert parse_goal("1%") == Goal(0.01, relative=True)


@pytest.mark.parametrize("goal", [Goal(0.001), Goal(0.001, confident=True)])
def test_too_large_a_loss_is_refused_either_way(goal: Goal) -> None:
    assert not _accept(_lost(4, 200), goal).accepted


def test_a_plan_that_the_exact_simulator_cannot_run_is_refused_with_its_reason() -> None:
    def refuses(plan: Plan, indices: Sequence[int]) -> float:
        raise SearchError("no rule for n1")

    context, _ = open_stages(Setting(chain(2), lambda plan, indices: 0.0, exact_loss=refuses, priced=False))
    refused = accept(context, context.space.base)
    assert not refused.accepted
    assert refused.summary == "exact simulation failed: no rule for n1"


def test_how_many_plans_were_tried_on_the_hold_out_is_said_from_the_second_on() -> None:
    context, ledger = open_stages(Setting(chain(2), lambda plan, indices: 0.0, priced=False))
    summaries: list[str] = []
    for raised in ([], ["n0"], ["n0"], ["n1"]):
        candidate = context.candidate(context.raised(raised, top=False))
        acceptance = ask_holdout(context, ledger, candidate).acceptance
        assert acceptance is not None
        summaries.append(acceptance.summary.removeprefix("hold-out loss 0 within 0.1"))
    tried = " (2 plans were tried on it)"
    assert summaries == ["", tried, tried, tried.replace("2", "3")]
