"""What a strategy may test next, found by running it on guesses.

A strategy is a pure function of its test. Run with the answers that are known and a guess for the first that is not,
it shows what it would test then. Guesses follow the more likely branches first.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping

from dovetail.search.strategy import TestSet
from dovetail.search.trial import Status

Strategy = Callable[[TestSet], object]
_MOST_RUNS = 64
"""Runs of a strategy on guesses: what is begun too much costs time on idle workers only."""


class _Tests(Exception):
    """A strategy wants the verdict on a set that is not known."""

    def __init__(self, units: frozenset[str]) -> None:
        self.units = units


def foresee(
    strategy: Strategy, known: Mapping[frozenset[str], Status], chance: float, most: int
) -> list[frozenset[str]]:
    """Return at most `most` sets that a strategy may test next, the most likely first.

    `chance` is how likely a verdict that is not known is to be PASS. The first set is what it tests certainly.
    """
    sets: list[frozenset[str]] = []
    counter = itertools.count()
    branches: list[tuple[float, int, dict[frozenset[str], Status]]] = [(-1.0, next(counter), dict(known))]
    runs = 0
    while branches and len(sets) < most and runs < _MOST_RUNS:
        weight, _, answers = heapq.heappop(branches)
        runs += 1
        following = _next_test(strategy, answers)
        if following is None:
            continue
        if following not in sets:
            sets.append(following)
        for status, share in ((Status.PASS, chance), (Status.FAIL, 1.0 - chance)):
            heapq.heappush(branches, (weight * share, next(counter), {**answers, following: status}))
    return sets


def _next_test(strategy: Strategy, answers: Mapping[frozenset[str], Status]) -> frozenset[str] | None:
    def test(units: frozenset[str]) -> Status:
        status = answers.get(units)
        if status is None:
            raise _Tests(units)
        return status

    try:
        strategy(test)
    except _Tests as test_of:
        return test_of.units
    return None
