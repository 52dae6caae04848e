"""How far two float outputs are apart: what is no number is never near."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail.repair.healing import relative_error

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("expected", "measured", "error"),
    [
        ([1.0, -4.0], [1.0, -4.0], 0.0),
        ([1.0, -4.0], [1.0, -3.0], 0.25),
        ([0.0, 0.0], [0.0, 0.5], 0.5),
        ([], [], 0.0),
        ([1.0, 2.0], [NAN, 2.0], INF),
        ([1.0, 2.0], [1.0, INF], INF),
        ([NAN, 2.0], [1.0, 2.0], INF),
        ([NAN, 2.0, INF], [NAN, 2.0, INF], 0.0),
        ([INF, 2.0], [-INF, 2.0], INF),
        ([INF, 2.0], [INF, 1.0], 0.5),
        ([1.0, 2.0], [1.0], INF),
    ],
)
def test_relative_error(expected: list[float], measured: list[float], error: float) -> None:
    assert relative_error(np.array(expected, np.float32), np.array(measured, np.float32)) == error


def test_integers_are_equal_or_not() -> None:
    assert relative_error(np.array([1, 2]), np.array([1, 2])) == 0
    assert relative_error(np.array([1, 2]), np.array([1, 3])) == 1
