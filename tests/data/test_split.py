"""Splits are disjoint, complete and the same for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.data import split
from dovetail.errors import DataError


@given(
    st.integers(20, 500),
    st.sampled_from([(0.5, 0.5), (0.7, 0.2, 0.1), (0.25, 0.25), (1.0,)]),
    st.integers(0, 2**32 - 1),
)
def test_parts_are_disjoint_and_of_the_right_size(count, fractions, seed):
    parts = split(count, fractions, seed)
    together = [i for part in parts for i in part]
    assert len(together) == len(set(together)) == round(count * sum(fractions))
    assert set(together) <= set(range(count))
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part) - count * fraction) <= 1
        assert list(part) == sorted(part)
    assert split(count, fractions, seed) == parts


def test_the_split_is_frozen():
    """A journal of last year must find its samples again."""
    assert split(10, (0.5, 0.3), 1) == ((0, 2, 4, 6, 9), (1, 3, 7))
    assert split(10, (0.5,), 2) != split(10, (0.5,), 1)


@pytest.mark.parametrize(
    ("count", "fractions", "seed"),
    [
        (10, (), 0),
        (10, (0.6, 0.6), 0),
        (10, (0.0, 0.5), 0),
        (10, (-0.5,), 0),
        (10, (float("nan"),), 0),
        (10, (0.5,), -1),
        (10, (0.5,), 2**32),
        (3, (0.1, 0.9), 0),
        (0, (1.0,), 0),
        (-1, (1.0,), 0),
    ],
)
def test_bad_splits_are_refused(count, fractions, seed):
    with pytest.raises(DataError, match="split"):
        split(count, fractions, seed)
