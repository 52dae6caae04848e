"""Splits are disjoint, complete and the same for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.data import SplitOptions, Splits, split, split_samples
from dovetail.errors import DataError
from dovetail.ir import Graph
from dovetail.testing.planted import HeldSamples, labelled_samples, planted_detector


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


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted_detector()


@given(st.integers(2, 40), st.sampled_from([0.25, 0.4, 0.5]), st.integers(0, 2**32 - 1))
def test_search_and_holdout_divide_all_samples(graph: Graph, count: int, holdout: float, seed: int) -> None:
    samples = labelled_samples(graph, count)
    if count * holdout < 1:
        return
    splits = split_samples(samples, SplitOptions(holdout, seed))
    assert (splits.holdout, splits.search) == split(count, (holdout, 1 - holdout), seed)
    assert sorted((*splits.search, *splits.holdout)) == list(range(count))
    assert splits.seed == seed


def test_a_source_that_does_not_know_its_count_is_counted(graph: Graph) -> None:
    samples = HeldSamples(list(labelled_samples(graph, 10)))
    known = split_samples(samples)
    samples.count = None
    assert split_samples(samples) == known


def test_one_sample_cannot_be_divided(graph: Graph) -> None:
    with pytest.raises(DataError, match="1 samples cannot be divided"):
        split_samples(labelled_samples(graph, 1))


@pytest.mark.parametrize("holdout", [0.0, 1.0, -0.1, float("nan")])
def test_a_holdout_share_is_between_nothing_and_everything(holdout: float) -> None:
    with pytest.raises(DataError, match="outside"):
        SplitOptions(holdout)


def test_a_sample_is_on_one_side_only() -> None:
    with pytest.raises(DataError, match="hold-out"):
        Splits((0, 1), (1, 2))
    with pytest.raises(DataError, match="both sides"):
        Splits((0, 1), ())
