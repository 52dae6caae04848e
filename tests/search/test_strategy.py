"""The pure strategies, with oracles whose answers are planted."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.search.policy import CulpritPolicy, GroupTestPolicy
from dovetail.search.strategy import GroupTest, LocateBudget, isolate, locate, minimise, shortest_prefix
from dovetail.search.trial import Status

Test = Callable[[frozenset[str]], Status]
GROUPS = GroupTest(CulpritPolicy(), GroupTestPolicy())


class Counted:
    """Answer from a function and remember every question."""

    def __init__(self, passes: Callable[[frozenset[str]], bool], broken: Iterable[frozenset[str]] = ()) -> None:
        self._passes = passes
        self._broken = frozenset(broken)
        self.asked: list[frozenset[str]] = []

    def __call__(self, units: frozenset[str]) -> Status:
        self.asked.append(units)
        if units in self._broken:
            return Status.CANNOT_TEST
        return Status.PASS if self._passes(units) else Status.FAIL


def _draw(*seeds: object) -> int:
    return zlib.crc32(repr(seeds).encode())


def _names(count: int) -> list[str]:
    return [f"u{index}" for index in range(count)]


@pytest.mark.parametrize(
    ("last", "sizes"),
    [(0, [1]), (3, [1, 2, 4, 3]), (10, [1, 2, 4, 8, 16, 12, 10, 11]), (15, [1, 2, 4, 8, 16, 12, 14, 15])],
)
def test_prefixes_double_until_one_passes_and_the_gap_is_halved(last: int, sizes: list[int]) -> None:
    oracle = Counted(lambda units: f"u{last}" in units)
    assert shortest_prefix(_names(16), oracle) == last + 1
    assert [len(units) for units in oracle.asked] == sizes


@pytest.mark.parametrize(
    ("culprits", "first", "sizes"),
    [
        (set(), 3, [13, 7, 0]),
        ({0, 9}, 4, [12, 4, 8, 10, 6, 8, 9, 9, 7, 3, 1, 2, 1, 1]),
        ({0, 9}, 1, [15, 13, 9, 11, 7, 9, 10, 8, 9, 9, 7, 3, 1, 2, 1, 1]),
        ({2, 3}, 0, [15, 13, 9, 1, 5, 0, 3, 4, 2, 3, 3, 3, 2, 1, 1]),
    ],
)
def test_chunks_double_after_a_success_and_halve_after_a_failure(
    culprits: set[int], first: int, sizes: list[int]
) -> None:
    needed = {f"u{index}" for index in culprits}
    oracle = Counted(lambda units: needed <= units)
    minimal = minimise(_names(16), oracle, first)
    assert [len(units) for units in oracle.asked] == sizes
    assert set(minimal.kept) == needed
    assert minimal.is_minimal


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_what_is_left_when_no_more_may_be_tested_is_what_passed_last(most: int) -> None:
    oracle = Counted(lambda units: "u0" in units)
    minimal = minimise(_names(16), oracle, 4, lambda: len(oracle.asked) < most)
    assert len(oracle.asked) == most
    assert len(minimal.kept) == [16, 12, 4, 4][most]
    assert minimal.removals == ()
    assert not minimal.is_minimal


@pytest.mark.parametrize(
    ("most", "blocks", "announced", "harm"),
    [
        (0, 4, [], {}),
        (1, 4, [[16]], dict.fromkeys(range(16), 1.25 / 16)),
        (3, 4, [[5, 5, 6]], dict.fromkeys(range(5, 10), 0.2) | dict.fromkeys(range(10, 16), 0.25 / 6)),
        (5, 4, [[4, 4, 4, 4]], dict.fromkeys(range(4, 8), 0.25) | dict.fromkeys(range(12, 16), 0.0625)),
        (6, 4, [[4, 4, 4, 4], [2, 2]], {4: 0.5, 5: 0.5} | dict.fromkeys(range(12, 16), 0.0625)),
        (8, 4, [[4, 4, 4, 4], [2, 2], [1, 1]], {5: 1.0} | dict.fromkeys(range(12, 16), 0.0625)),
        (15, 4, [[4, 4, 4, 4], [2, 2], [1, 1], [2, 2], [1, 1]], {5: 1.0, 12: 0.25}),
        (16, 4, [[1] * 16], {5: 1.0, 12: 0.25}),
    ],
)
def test_the_block_that_does_most_harm_is_split_first(
    most: int, blocks: int, announced: list[list[int]], harm: dict[int, float]
) -> None:
    alone, told, measured = {"u5": 1.0, "u12": 0.25}, list[list[int]](), list[int]()

    def measure(units: Sequence[str]) -> float:
        measured.append(len(units))
        return sum(alone.get(unit, 0.0) for unit in units)

    found = locate(_names(16), measure, LocateBudget(most, blocks), lambda groups: told.append([*map(len, groups)]))
    assert told == announced
    assert measured == [size for sizes in announced for size in sizes]
    assert found == pytest.approx({f"u{index}": harm.get(index, 0.0) for index in range(16)})


@st.composite
def planted(draw: st.DrawFn) -> tuple[list[str], frozenset[str]]:
    """Draw an order of units and the culprits among them."""
    order = draw(st.permutations(_names(draw(st.integers(1, 40)))))
    culprits = draw(st.sets(st.sampled_from(order), min_size=1, max_size=6))
    return list(order), frozenset(culprits)


@given(planted())
def test_the_shortest_prefix_ends_at_the_last_culprit(drawn: tuple[list[str], frozenset[str]]) -> None:
    order, culprits = drawn
    oracle = Counted(lambda units: culprits <= units)
    length = shortest_prefix(order, oracle)
    assert length == 1 + max(order.index(unit) for unit in culprits)
    # Gallop to it, then bisect the last gap.
    assert len(oracle.asked) <= 2 * math.ceil(math.log2(length + 1)) + 1
    assert len(set(oracle.asked)) == len(oracle.asked)


@given(planted())
def test_independent_culprits_are_found_exactly(drawn: tuple[list[str], frozenset[str]]) -> None:
    order, culprits = drawn
    oracle = Counted(lambda units: culprits <= units)
    found = minimise(order, oracle)
    assert frozenset(found.kept) == culprits
    assert list(found.kept) == [unit for unit in order if unit in culprits]
    assert all(status is Status.FAIL for _, status in found.removals)
    assert [unit for unit, _ in found.removals] == list(found.kept)
    # Sizes halve: about two tests for each unit while chunks shrink, and single removals to a fixpoint.
    assert len(oracle.asked) <= 4 * len(order) + 3 * len(culprits) + 8


@given(st.integers(1, 30), st.data())
def test_any_oracle_gives_a_passing_set_of_which_every_removal_was_tested(count: int, data: st.DataObject) -> None:
    order = _names(count)
    salt = data.draw(st.integers(0, 2**32))
    share = data.draw(st.floats(0.0, 1.0))

    def passes(units: frozenset[str]) -> bool:
        return len(units) == count or _draw(salt, sorted(units)) % 1000 < 1000 * share

    oracle = Counted(passes)
    found = minimise(order, oracle)
    kept = frozenset(found.kept)
    assert passes(kept)
    for unit, status in found.removals:
        assert kept - {unit} in oracle.asked
        assert status is not Status.PASS
        assert not passes(kept - {unit})
    assert len(oracle.asked) <= count * count + 3 * count + 3


@given(st.integers(1, 40), st.integers(0, 2**32))
def test_any_oracle_gives_a_prefix_that_passes_after_one_that_does_not(count: int, salt: int) -> None:
    order = _names(count)

    def passes(units: frozenset[str]) -> bool:
        return bool(units) and _draw(salt, len(units)) % 2 == 0

    length = shortest_prefix(order, Counted(passes))
    if length is None:
        assert not passes(frozenset(order))
    else:
        assert passes(frozenset(order[:length]))
        assert not passes(frozenset(order[: length - 1]))


def test_no_prefix_passes() -> None:
    oracle = Counted(lambda units: False)
    assert shortest_prefix(_names(10), oracle) is None
    assert [len(units) for units in oracle.asked] == [1, 2, 4, 8, 10]
    assert shortest_prefix([], oracle) is None


def test_a_plan_that_cannot_be_tested_is_not_taken_for_one_that_passes() -> None:
    order = _names(4)
    broken = frozenset({frozenset(order[:2]), frozenset(order[:1])})
    assert shortest_prefix(order, Counted(lambda units: True, broken)) == 3
    oracle = Counted(lambda units: True, frozenset(map(frozenset, ([], ["u0"], ["u1"]))))
    minimal = minimise(order, oracle)
    assert minimal.kept == ("u0", "u1")
    assert minimal.removals == (("u0", Status.CANNOT_TEST), ("u1", Status.CANNOT_TEST))
    assert {frozenset(["u0"]), frozenset(["u1"])} <= set(oracle.asked)


def test_alternatives_leave_one_of_them() -> None:
    found = minimise(_names(8), Counted(lambda units: "u2" in units or "u5" in units))
    assert found.kept in (("u2",), ("u5",))


def test_pairs_that_only_help_together() -> None:
    found = minimise(_names(8), Counted(lambda units: {"u1", "u6"} <= units or {"u2", "u3", "u4"} <= units))
    assert set(found.kept) in ({"u1", "u6"}, {"u2", "u3", "u4"})


def test_isolating_finds_a_passing_set_with_fewer_tests_where_few_units_matter() -> None:
    rng = np.random.default_rng(4)
    units = [f"u{index}" for index in range(60)]
    spent = [0, 0]
    for _ in range(40):
        needed = frozenset([units[-1], *rng.choice(units[:-1], 2, replace=False).tolist()])
        oracles = [Counted(needed.issubset) for _ in spent]
        assert frozenset(isolate(units, oracles[0], GROUPS).kept) == needed
        assert frozenset(minimise(units, oracles[1]).kept) == needed
        spent = [total + len(oracle.asked) for total, oracle in zip(spent, oracles, strict=True)]
    assert spent[0] < 0.7 * spent[1]


def test_isolating_returns_what_has_passed_when_it_has_to_stop_or_the_oracle_wavers() -> None:
    rng = np.random.default_rng(6)
    units = [f"u{index}" for index in range(30)]
    for most in range(1, 20):
        passed = {frozenset(units)}

        def wavers(raised: frozenset[str], passed: set[frozenset[str]] = passed) -> bool:
            if raised and rng.random() < 0.4:
                passed.add(raised)
            return raised in passed

        oracle = Counted(wavers)

        def goes_on(judge: Counted = oracle, most: int = most) -> bool:
            return len(judge.asked) < most

        found = isolate(units, oracle, GROUPS, goes_on)
        assert frozenset(found.kept) in passed


def test_isolating_begins_at_the_end_that_matters_least() -> None:
    """The last unit completed the set that passes: it is taken to matter, and stays raised longest."""
    oracle = Counted(lambda units: {"u3", "u20", "u39"} <= units)
    isolated = isolate(_names(40), oracle, GROUPS)
    assert [len(units) for units in oracle.asked] == [0, 23, 2, 11, 17, 20, 21, 22, 10, 1, 5, 7, 6, 2, 4, 3]
    assert isolated.kept == ("u3", "u20", "u39")
