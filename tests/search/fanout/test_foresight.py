"""Foresight asks nothing that the strategy would not ask."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.search.fanout.foresight import foresee
from dovetail.search.strategy import TestSet, minimise, shortest_prefix
from dovetail.search.trial import Status


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 30), st.sets(st.integers(0, 29), max_size=5), st.floats(0.1, 0.9), st.integers(1, 8))
def test_the_first_foreseen_set_is_the_one_that_is_asked_next(
    count: int, culprits: set[int], chance: float, most: int
) -> None:
    units = [f"u{index}" for index in range(count)]
    needed = frozenset(f"u{index}" for index in culprits if index < count)
    for strategy in (partial(shortest_prefix, units), partial(minimise, tuple(units))):
        known: dict[frozenset[str], Status] = {}
        foreseen: list[frozenset[str]] = []

        def test(asked: frozenset[str], known=known, foreseen=foreseen, strategy=strategy) -> Status:
            if asked not in known:
                foreseen[:] = foresee(strategy, known, chance, most)
                assert len(foreseen) <= most
                assert foreseen[0] == asked
                assert not set(foreseen) & set(known)
            known[asked] = Status.PASS if needed <= asked else Status.FAIL
            return known[asked]

        strategy(test)


@pytest.mark.parametrize(
    ("chance", "sizes"),
    [(0.9, [15, 13, 9, 1]), (0.1, [15, 15, 15, 15]), (0.5, [15, 13, 15, 9]), (0.65, [15, 13, 9, 15])],
)
def test_the_more_likely_answers_are_followed_first(chance: float, sizes: list[int]) -> None:
    """What passes lets a chunk of twice the size go next, what fails one unit alone."""
    units = [f"u{index}" for index in range(16)]
    assert [len(item) for item in foresee(partial(minimise, units), {}, chance, 4)] == sizes


def test_a_strategy_is_run_no_more_often_than_pays() -> None:
    runs: list[int] = []

    def strategy(test: TestSet) -> None:
        runs.append(len(runs))
        for index in range(1000):
            test(frozenset({f"u{index}"}))

    assert len(foresee(strategy, {}, 0.5, 1000)) == 7
    # A binary tree of guesses that asks for one set a level, breadth first.
    assert len(runs) == 64
    assert len(foresee(strategy, {}, 0.5, 3)) == 3


def test_a_strategy_that_knows_enough_foresees_nothing() -> None:
    assert foresee(lambda test: None, {}, 0.5, 4) == []


def test_both_answers_of_a_bisection_are_foreseen() -> None:
    units = [f"u{index}" for index in range(16)]
    sizes = [len(item) for item in foresee(partial(shortest_prefix, units), {}, 0.5, 5)]
    assert sizes[0] == 1
    assert sizes[1:3] == [2, 4]
    known = {frozenset(units[:size]): Status.FAIL for size in (1, 2, 4)} | {frozenset(units[:8]): Status.PASS}
    assert [len(item) for item in foresee(partial(shortest_prefix, units), known, 0.5, 3)] == [6, 5, 7]
