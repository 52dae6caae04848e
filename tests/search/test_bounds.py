"""The bound of the loss on new samples: how often it covers, beside the bounds that it is known by."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dovetail.ir import AnyArray
from dovetail.search.bounds import upper_bound

CONFIDENCE = 0.95
COUNTS, LOSSES = (10, 30, 60, 120, 400), (0.01, 0.02, 0.05)


@cache
def _bound_of(lost: int, count: int) -> float:
    """Return the bound for 0/1 losses."""
    return upper_bound(np.arange(count) < lost, 1.0, CONFIDENCE)


def _clopper_pearson(lost: int, count: int) -> float:
    return float(stats.beta.ppf(CONFIDENCE, lost + 1, count - lost)) if lost < count else 1.0


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_bound_covers_at_least_as_often_as_it_says(count: int, loss: float) -> None:
    """Exact for samples that are lost or not: the bound is a function of their number, which is binomial."""
    uncovered = next(lost for lost in range(count + 1) if _bound_of(lost, count) >= loss)
    assert 1 - stats.binom.cdf(uncovered - 1, count, loss) >= CONFIDENCE


@pytest.mark.parametrize("count", COUNTS)
def test_it_is_never_tighter_than_the_exact_bound_and_not_far_from_it(count: int) -> None:
    assert _bound_of(0, count) == pytest.approx(_clopper_pearson(0, count), rel=1e-4)
    for lost in range(1, min(count, 12) + 1):
        exact = _clopper_pearson(lost, count)
        assert exact <= _bound_of(lost, count) <= 1.25 * exact + 1e-9
    assert _bound_of(count, count) == 1.0


def _graded(rng: np.random.Generator, count: int) -> tuple[AnyArray, float]:
    return rng.beta(0.2, 9.8, count), 0.02


def _with_gains(rng: np.random.Generator, count: int) -> tuple[AnyArray, float]:
    return rng.choice([-1.0, 0.0, 1.0], count, p=[0.03, 0.92, 0.05]), 0.02


def _rare_and_large(rng: np.random.Generator, count: int) -> tuple[AnyArray, float]:
    return np.where(rng.random(count) < 0.02, 1.0, 0.001), 0.02 + 0.98 * 0.001


@pytest.mark.parametrize("draw", [_graded, _with_gains, _rare_and_large], ids=lambda item: item.__name__.strip("_"))
@pytest.mark.parametrize("count", [30, 120, 400])
def test_losses_of_any_kind_are_covered(draw, count: int) -> None:
    rng, trials, covered = np.random.default_rng(11), 300, 0
    for _ in range(trials):
        losses, mean = draw(rng, count)
        covered += upper_bound(losses, 1.0, CONFIDENCE) >= mean
    # At least 0.95 in truth; 272 or less of 300 have a probability of 0.002 then.
    assert covered > 272


def test_two_samples_without_loss_say_next_to_nothing() -> None:
    assert upper_bound(np.zeros(2), 1.0, CONFIDENCE) == pytest.approx(1 - 0.05**0.5, rel=1e-4)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.floats(0.1, 100.0))
def test_the_bound_is_above_the_mean_within_the_range_and_scales_with_it(losses: list[float], unit: float) -> None:
    array = np.array(losses)
    bound = upper_bound(array, 1.0, CONFIDENCE)
    assert max(0.0, array.mean()) <= bound <= 1.0
    assert upper_bound(unit * array, unit, CONFIDENCE) == pytest.approx(unit * bound, rel=1e-6)
    # More confidence takes more, and the order of the samples does not matter.
    assert bound <= upper_bound(array, 1.0, 0.99) * (1 + 1e-6)
    assert upper_bound(array[::-1], 1.0, CONFIDENCE) == bound


def test_small_losses_and_gains_make_it_tighter() -> None:
    lost = np.zeros(400)
    lost[:8] = 1.0
    small = np.full(400, 8 / 400)
    gained = lost.copy()
    gained[8:16] = -1.0
    bounds = [upper_bound(item, 1.0, CONFIDENCE) for item in (lost, small, gained)]
    assert bounds[1] < 0.9 * bounds[0]
    assert bounds[2] < 0.75 * bounds[0]
