"""The race keeps its stated error: simulated plans whose loss over the whole split is exactly what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dovetail.ir import AnyArray
from dovetail.search.policy import RacePolicy
from dovetail.search.race import Race

Draw = Callable[[np.random.Generator, int], tuple[AnyArray, AnyArray]]
"""Draws float's scores and a plan's."""


def _right_or_wrong(rng: np.random.Generator, count: int) -> tuple[AnyArray, AnyArray]:
    good = (rng.random(count) < rng.uniform(0.5, 1.0)).astype(float)
    flips = rng.random(count) < rng.uniform(0.0, 0.4)
    return good, np.where(flips, rng.random(count) < 0.3, good).astype(float)


def _only_losses(rng: np.random.Generator, count: int) -> tuple[AnyArray, AnyArray]:
    return np.ones(count), (rng.random(count) > rng.uniform(0.001, 0.9)).astype(float)


def _graded(rng: np.random.Generator, count: int) -> tuple[AnyArray, AnyArray]:
    good = rng.uniform(0.6, 1.0, count)
    return good, np.clip(good - rng.normal(rng.uniform(0, 0.2), 0.1, count), 0.0, 1.0)


def _rare_and_large(rng: np.random.Generator, count: int) -> tuple[AnyArray, AnyArray]:
    return np.ones(count), 1.0 - np.where(rng.random(count) < 0.01, 1.0, 0.0001)


def _errors(rng: np.random.Generator, count: int) -> tuple[AnyArray, AnyArray]:
    good = rng.exponential(1.0, count)
    return -good, -np.maximum(0.0, good + rng.normal(0.2, 0.3, count))


_DRAWS: tuple[Draw, ...] = (_right_or_wrong, _only_losses, _graded, _rare_and_large, _errors)


def _rejected_ever(race: Race, scores: AnyArray, allowance: float) -> bool:
    """Look after every sixteenth sample: the stated error does not depend on how often one looks."""
    stops = range(16, len(scores), 16)
    return any(race.rejects(scores[:stop], allowance) for stop in stops)


@pytest.mark.slow
@pytest.mark.parametrize("draw", _DRAWS, ids=lambda item: item.__name__.strip("_"))
def test_a_plan_at_the_threshold_is_rejected_no_more_often_than_stated(draw: Draw) -> None:
    rng, wrong, trials = np.random.default_rng(11), 0, 1500
    for _ in range(trials):
        count = int(rng.choice([72, 150, 300]))
        good, scores = draw(rng, count)
        order = rng.permutation(count)
        good, scores = good[order], scores[order]
        losses = good - scores
        wrong += _rejected_ever(Race.against(good), scores, float(losses.mean()))
    # 8 of 1500 or more have a probability below 0.001 where the error is alpha.
    assert wrong <= 7


def test_what_breaks_is_rejected_on_sixteen_samples_and_what_hardly_loses_is_not() -> None:
    rng = np.random.default_rng(5)
    good = (rng.random(400) < 0.9).astype(float)
    race = Race.against(good)
    broken = good * (rng.random(400) < 0.2)
    assert race.rejects(broken[:16], 0.01)
    close = good.copy()
    close[np.flatnonzero(good)[::50]] = 0.0
    assert not any(race.rejects(close[:stop], 0.03) for stop in range(16, 400, 16))


def test_a_loss_that_nothing_to_come_can_make_good_is_rejected_for_certain() -> None:
    good = np.ones(100)
    scores = np.ones(100)
    scores[[5, 15, 25, 35, 45, 48]] = 0.0
    assert Race.against(good).rejects(scores[:50], 0.05)
    scores[48] = 1.0
    assert not Race.against(good).rejects(scores[:50], 0.05)


def test_what_one_sample_can_lose_is_known_of_shares_only() -> None:
    assert Race.against(np.array([0.2, 1.0])).largest_loss == 1.0
    assert Race.against(np.array([0.2, 1.5])).largest_loss is None
    assert Race.against(np.array([0.2, 30.0])).largest_loss is None
    assert Race.against(np.array([-3.0, 0.0])).largest_loss is None


def _wealth(values: AnyArray, total: int, mean: float, floor: float, stakes: tuple[float, ...]) -> list[float]:
    """Return the wealth after each value, as the papers define it: bet by bet, in plain loops."""
    wealth = dict.fromkeys(stakes, 1.0)
    after: list[float] = []
    below = False
    for number, value in enumerate(values):
        rest = (total * mean - values[:number].sum()) / (total - number)
        for stake in stakes:
            wealth[stake] *= 1 + stake * max((value - rest) / (rest - floor), -1.0) if rest - floor > 1e-9 else 1.0
        left = total - number - 1
        lost = left > 0 and (total * mean - values[: number + 1].sum()) / left - floor < -1e-9
        below |= bool(value < floor - 1e-9)
        after.append(0.0 if below else math.inf if lost else sum(wealth.values()) / len(stakes))
    return after


@pytest.mark.parametrize("draw", _DRAWS, ids=lambda item: item.__name__.strip("_"))
def test_a_race_ends_where_the_definition_says(draw: Draw) -> None:
    rng, policy = np.random.default_rng(6), RacePolicy(alpha=0.1)
    verdicts: list[bool] = []
    for _ in range(8):
        good, scores = draw(rng, 24)
        race = Race.against(good, policy)
        losses = good - scores
        allowance = max(0.0, float((good - scores).mean())) * rng.uniform(0.0, 1.2)
        shortfall = race.best - float(good.mean()) + allowance
        floor = float(good.min()) - race.best
        first = _wealth(losses, 24, allowance, floor, policy.stakes)
        second = _wealth(race.best - scores, 24, shortfall, 0.0, policy.stakes)
        for count in range(25):
            most = max(
                ((one + other) / 2 for one, other in zip(first[:count], second[:count], strict=True)), default=0.0
            )
            assert race.rejects(scores[:count], allowance) == (most >= 10.0)
            verdicts.append(most >= 10.0)
    assert {True, False} == set(verdicts)


def test_before_the_first_sample_nothing_is_rejected() -> None:
    assert not Race.against(np.ones(10), RacePolicy(alpha=1.0)).rejects(np.ones(0), 0.0)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.2, 0.9], 1.0),
        ([0.2, 1.0], 1.0),
        ([0.2, 1.5], 1.5),
        ([-0.5, 0.5], 0.5),
        ([-3.0, -1.0], 0.0),
        ([0.0, 0.0], 0.0),
    ],
)
def test_the_best_score_is_one_of_shares_none_of_errors_and_else_the_largest(scores: list[float], best: float) -> None:
    assert Race.against(np.array(scores)).best == best


def test_scores_above_the_best_that_was_assumed_stop_the_race() -> None:
    good = np.full(200, 30.0)
    scores = np.zeros(200)
    assert Race.against(good).rejects(scores[:16], 1.0)
    scores[0] = 31.0
    assert not Race.against(good).rejects(scores[:100], 1.0)


def test_a_score_that_is_not_a_number_is_left_to_the_whole_split() -> None:
    scores = np.zeros(100)
    scores[3] = np.nan
    assert not Race.against(np.ones(100)).rejects(scores[:50], 0.01)
