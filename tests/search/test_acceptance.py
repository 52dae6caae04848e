"""Acceptance: the loss on the hold-out split, and its confidence bound where the goal asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dovetail.ir import AnyArray
from dovetail.ir.precision import Precision
from dovetail.plan import Placement, Plan
from dovetail.search import Goal, Journal, parse_goal
from dovetail.search.acceptance import accept, loss_bound
from dovetail.search.candidate import Acceptance
from dovetail.search.oracle import Oracle, Split
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.trial import Scores

FLOAT = Plan("g", Placement("cpu", Precision.FP32))
LOW = Plan("g", Placement("vsi:v853", Precision.I8))


class Planted:
    """Score 1 on every sample, but for what a plan loses."""

    identity = "planted"

    def __init__(self, losses: AnyArray, set_level: bool = False) -> None:
        self.losses, self.set_level = losses, set_level

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        scores = np.ones(len(indices)) - (0 if plan == FLOAT else self.losses[list(indices)])
        return Scores(float(scores.mean()), None if self.set_level else scores)

    def outputs(self, plan: Plan, indices: Sequence[int]) -> dict[str, AnyArray]:
        raise AssertionError("not asked for")

    def golden(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        raise AssertionError("not asked for")


def _accept(held: AnyArray, goal: Goal, set_level: bool = False, searched: AnyArray | None = None) -> Acceptance:
    """Judge a plan that loses as given on the hold-out split, and on the search split too or as given there."""
    journal = Journal(None, "c")
    searched = held if searched is None else searched
    planted = Planted(np.concatenate([searched, held]), set_level)
    recorded, every = RecordedEvaluator(planted, journal), range(len(searched) + len(held))
    splits = Split("search", tuple(every[: len(searched)])), Split("holdout", tuple(every[len(searched) :]))
    search, holdout = (Oracle(recorded, split, FLOAT) for split in splits)
    return accept(search, holdout, RecordedEvaluator(planted, journal, "exact"), LOW, goal)


def _lost(count: int, of: int) -> AnyArray:
    losses = np.zeros(of)
    losses[np.linspace(3, of - 3, count).astype(int)] = 1.0
    return losses


def test_a_loss_within_the_goal_is_accepted_though_its_bound_is_not() -> None:
    losses = _lost(4, 200)
    found = _accept(losses, Goal(0.03))
    assert found.accepted
    assert found.loss_bound is not None
    assert found.loss_bound > 0.03
    sure = _accept(losses, Goal(0.03, confident=True))
    assert not sure.accepted
    assert "95 % bound is 0.036" in sure.summary


def test_many_samples_make_the_same_share_certain() -> None:
    assert _accept(_lost(40, 2000), Goal(0.03, confident=True)).accepted


def test_without_scores_of_samples_nobody_can_be_confident() -> None:
    assert _accept(_lost(1, 200), Goal(0.03), set_level=True).accepted
    found = _accept(_lost(1, 200), Goal(0.03, confident=True), set_level=True)
    assert not found.accepted
    assert "no score for each sample" in found.summary


def test_a_hold_out_that_is_sure_by_luck_makes_nobody_confident() -> None:
    lucky, goal = _accept(_lost(0, 200), Goal(0.03), searched=_lost(12, 200)), Goal(0.03, confident=True)
    assert lucky.accepted
    assert lucky.losses is not None
    assert (len(lucky.losses), lucky.losses.sum()) == (400, 12)
    refused = _accept(_lost(0, 200), goal, searched=_lost(12, 200))
    assert not refused.accepted
    assert refused.loss_bound == 0
    assert "over both splits its 95 % bound is 0.04405 (allowed: 0.03)" in refused.summary
    assert _accept(_lost(0, 200), goal, searched=_lost(2, 200)).accepted


def test_the_bound_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    bounds = [loss_bound((rng.random(400) < 0.05).astype(float)) for _ in range(2000)]
    covered = np.mean([bound is not None and bound >= 0.05 for bound in bounds])
    # A normal approximation of a skewed mean: a little less than it says, not far less.
    assert 0.92 <= covered <= 0.98


def test_a_goal_says_that_it_is_confident() -> None:
    assert str(parse_goal("1%", confident=True)) == "drop at most 0.01 x float, with 95 % confidence"
    assert parse_goal("1%") == Goal(0.01, relative=True)


@pytest.mark.parametrize("goal", [Goal(0.001), Goal(0.001, confident=True)])
def test_too_large_a_loss_is_refused_either_way(goal: Goal) -> None:
    assert not _accept(_lost(4, 200), goal).accepted
