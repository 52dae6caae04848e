"""Strategies against oracles of which the answer is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.search.strategy import LocateBudget, locate, minimise, shortest_prefix
from dovetail.search.trial import Status

UNITS = tuple(f"u{index}" for index in range(24))
sets = st.sets(st.sampled_from(UNITS)).map(frozenset)


def needs(culprits: frozenset[str], asked: list[frozenset[str]] | None = None):
    def test(units: frozenset[str]) -> Status:
        if asked is not None:
            asked.append(units)
        return Status.PASS if culprits <= units else Status.FAIL

    return test


@given(st.permutations(UNITS), st.sets(st.sampled_from(UNITS), min_size=1).map(frozenset))
def test_the_shortest_prefix_ends_at_the_last_culprit(order, culprits):
    asked: list[frozenset[str]] = []
    length = shortest_prefix(order, needs(culprits, asked))
    assert length == 1 + max(order.index(unit) for unit in culprits)
    assert len(asked) <= 2 * len(UNITS).bit_length() + 1


def test_no_prefix_passes_when_nothing_does():
    assert shortest_prefix(UNITS, lambda _: Status.CANNOT_TEST) is None


@given(st.permutations(UNITS), sets)
def test_a_monotone_oracle_gives_exactly_the_culprits(order, culprits):
    asked: list[frozenset[str]] = []
    minimal = minimise(order, needs(culprits, asked))
    assert frozenset(minimal.kept) == culprits
    assert minimal.is_minimal
    assert [unit for unit in order if unit in culprits] == list(minimal.kept)


@given(st.dictionaries(sets, st.booleans(), max_size=40), st.integers(0, 2**32))
def test_any_oracle_gives_a_tested_one_minimal_set(known, salt):
    def test(units: frozenset[str]) -> Status:
        passes = known.get(units, hash((salt, tuple(sorted(units)))) % 3 > 0)
        return Status.PASS if units == frozenset(UNITS) or passes else Status.FAIL

    minimal = minimise(UNITS, test)
    kept = frozenset(minimal.kept)
    assert test(kept) is Status.PASS
    assert [unit for unit, _ in minimal.removals] == list(minimal.kept)
    assert all(test(kept - {unit}) is status is not Status.PASS for unit, status in minimal.removals)


def test_a_set_that_is_minimal_costs_one_test_a_unit():
    asked: list[frozenset[str]] = []
    minimise(UNITS[:5], needs(frozenset(UNITS[:5]), asked))
    assert sorted(map(len, asked)) == [4] * 5


def test_ballast_goes_in_doubling_chunks():
    units = tuple(f"u{index}" for index in range(512))
    asked: list[frozenset[str]] = []
    assert minimise(units, needs(frozenset(units[:2]), asked), first=1).kept == units[:2]
    assert len(asked) < 40


@given(sets, st.integers(0, 12))
def test_a_stopped_search_still_passes(culprits, limit):
    asked: list[frozenset[str]] = []
    test = needs(culprits, asked)
    minimal = minimise(UNITS, test, go_on=lambda: len(asked) < limit)
    assert len(asked) <= limit
    assert culprits <= frozenset(minimal.kept)
    assert all(status is Status.FAIL for _, status in minimal.removals)
    assert not minimal.is_minimal or frozenset(minimal.kept) == culprits


@pytest.mark.parametrize("count", [1, 7, 96, 400])
@given(data=st.data())
def test_few_harmful_units_among_many_are_found_in_few_measurements(count, data):
    units = tuple(f"u{index}" for index in range(count))
    harm = data.draw(st.dictionaries(st.sampled_from(units), st.floats(0.5, 1.0), min_size=1, max_size=4))
    asked: list[Sequence[str]] = []

    def measure(block: Sequence[str]) -> float:
        asked.append(block)
        return sum(harm.get(unit, 1e-6) for unit in block)

    found = locate(units, measure, LocateBudget(96, 32))
    assert set(found) == set(units)
    assert len(asked) <= 96
    assert set(sorted(units, key=lambda unit: -found[unit])[: len(harm)]) == set(harm)


@given(st.integers(0, 40), st.integers(0, 20))
def test_measurements_stay_in_the_budget_and_blocks_are_neighbours(count, budget):
    units = tuple(f"u{index}" for index in range(count))
    asked: list[Sequence[str]] = []

    def measure(block: Sequence[str]) -> float:
        asked.append(block)
        return float(len(block))

    estimates = locate(units, measure, LocateBudget(budget, budget // 3 or 1))
    # Every unit does harm of 1, and blocks add up.
    assert estimates == dict.fromkeys(units, 1.0 if budget else 0.0)
    assert bool(asked) == bool(count and budget)
    assert len(asked) <= budget
    assert all(tuple(block) == units[units.index(block[0]) :][: len(block)] for block in asked)
