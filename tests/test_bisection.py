"""Halving and delta debugging by planted predicates: what is found fails, and nothing of it can be left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dovetail.bisection import smallest

COUNTS = st.integers(1, 60)


@given(COUNTS.flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1), min_size=1))))
def test_a_planted_set_is_found_whatever_is_around_it(case: tuple[int, set[int]]) -> None:
    count, planted = case
    assert smallest(range(count), lambda some: planted <= set(some)) == sorted(planted)


@given(COUNTS.flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count - 1), st.integers(1, 4))))
def test_a_run_of_neighbours_takes_few_tests(case: tuple[int, int, int]) -> None:
    count, start, length = case
    planted, asked = set(range(start, min(start + length, count))), 0

    def fails(some: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        return planted <= set(some)

    assert smallest(range(count), fails) == sorted(planted)
    assert asked <= 4 * math.ceil(math.log2(count + 1)) + 3 * len(planted) + 2


@given(COUNTS.flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count - 1))))
def test_a_single_item_is_found_in_ever_smaller_tests(case: tuple[int, int]) -> None:
    count, planted = case
    sizes: list[int] = []

    def fails(some: Sequence[int]) -> bool:
        sizes.append(len(some))
        return planted in some

    assert smallest(range(count), fails) == [planted]
    assert sum(sizes) <= 2 * count + len(sizes)


@given(
    COUNTS.flatmap(
        lambda count: st.tuples(
            st.just(count), st.lists(st.sets(st.integers(0, count - 1), min_size=1, max_size=5), min_size=2, max_size=4)
        )
    )
)
def test_of_several_planted_sets_one_is_found(case: tuple[int, list[set[int]]]) -> None:
    count, planted = case
    found = smallest(range(count), lambda some: any(item <= set(some) for item in planted))
    assert set(found) in planted


@given(st.integers(2, 24), st.integers(0, 2**32))
def test_a_predicate_that_makes_no_sense_still_gives_what_fails_and_is_minimal(count: int, seed: int) -> None:
    everything = tuple(range(count))

    def fails(some: Sequence[int]) -> bool:
        return tuple(some) == everything or hash((seed, tuple(some))) % 3 == 0

    found = smallest(everything, fails)
    assert fails(found)
    assert found == sorted(found)
    if len(found) > 1:
        assert not any(fails([*found[:index], *found[index + 1 :]]) for index in range(len(found)))


@given(COUNTS, st.integers(0, 30), st.integers(1, 3))
def test_a_test_that_gives_up_keeps_what_failed_last(count: int, most: int, every: int) -> None:
    planted, failed, asked = set(range(0, count, every)), [list(range(count))], 0

    def fails(some: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        if asked > most or not planted <= set(some):
            return False
        failed.append(list(some))
        return True

    assert smallest(range(count), fails) == failed[-1]


@given(COUNTS, st.integers(1, 9))
def test_a_piece_that_fails_alone_is_enough(count: int, width: int) -> None:
    """Pieces of `width` neighbours; one of them fails, and it alone."""
    wanted = set(range(count - 1, max(-1, count - 1 - width), -1))

    def pieces(some: Sequence[int]) -> list[list[int]]:
        cut = [[item for item in some if item in wanted], [item for item in some if item not in wanted]]
        return [piece for piece in cut if piece]

    assert set(smallest(range(count), lambda some: wanted <= set(some), pieces)) == wanted
