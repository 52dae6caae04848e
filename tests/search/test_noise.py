"""How much of an output is noise."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.search.noise import noise_of

RNG = np.random.default_rng(5)


def test_an_exact_output_is_clean():
    golden = RNG.normal(size=(4, 3, 5))
    assert noise_of(golden, golden.copy()) == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_value_that_is_no_number_is_no_signal(bad):
    golden = RNG.normal(size=(4, 6))
    broken = golden.copy()
    broken[0, 2] = bad
    assert noise_of(golden, broken) > 1.0


def test_noise_as_strong_as_the_signal_is_half():
    golden = np.ones((8, 2))
    assert noise_of(golden, golden + np.array([[1.0], [-1.0]] * 4)) == pytest.approx(1.0)


def test_a_lost_column_counts_more_than_the_same_noise_spread():
    golden = RNG.normal(size=(1, 50, 10)) * np.array([100.0] * 4 + [0.1] * 6)
    lost, spread = golden.copy(), golden + RNG.normal(size=golden.shape) * 0.01
    lost[..., 4:] = 0.0
    assert noise_of(golden, lost) > 2 * noise_of(golden, spread)


@pytest.mark.parametrize("shape", [(50, 10), (1, 50, 10), (1, 5, 10, 10), (1, 2, 5, 5, 10)])
def test_columns_are_those_of_the_last_axis_and_of_axis_1(shape):
    golden = np.ones(shape)
    last, second = golden.copy(), golden.copy()
    last[..., 3] = 0.0
    second[:, 1] = 0.0
    assert noise_of(golden, last) == pytest.approx(0.5 + 0.05)
    assert noise_of(golden, second) == pytest.approx(0.5 + 0.5 / shape[1])


def test_a_column_that_is_empty_in_both_does_not_count():
    golden = np.zeros((4, 3))
    assert noise_of(golden, golden) == 0.0
    assert noise_of(golden, golden + np.array([0.0, 0.0, 1.0])) == pytest.approx(2.0)
