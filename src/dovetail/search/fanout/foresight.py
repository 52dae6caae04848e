"""Foresight: what a strategy will ask next, found by running it on guesses.

A strategy is a pure function of its test. Run with the answers that are known and a guess for the first that is not,
it shows what it would ask then. Guesses follow the more likely branches first.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping

from dovetail.search.strategy import TestSet
from dovetail.search.trial import Status

Strategy = Callable[[TestSet], object]
_MOST_RUNS = 64


class _Asks(Exception):
    def __init__(self, units: frozenset[str]) -> None:
        self.units = units


def foresee(
    strategy: Strategy, known: Mapping[frozenset[str], Status], chance: float, most: int
) -> list[frozenset[str]]:
    """Return at most `most` sets that a strategy may ask for next, the most likely first.

    `chance` is how likely an answer that is not known is to be PASS. The first set is what it asks for certainly.
    """
    found: list[frozenset[str]] = []
    counter = itertools.count()
    branches: list[tuple[float, int, dict[frozenset[str], Status]]] = [(-1.0, next(counter), dict(known))]
    runs = 0
    while branches and len(found) < most and runs < _MOST_RUNS:
        weight, _, answers = heapq.heappop(branches)
        runs += 1
        asked = _next_question(strategy, answers)
        if asked is None:
            continue
        if asked not in found:
            found.append(asked)
        for status, share in ((Status.PASS, chance), (Status.FAIL, 1.0 - chance)):
            heapq.heappush(branches, (weight * share, next(counter), {**answers, asked: status}))
    return found


def _next_question(strategy: Strategy, answers: Mapping[frozenset[str], Status]) -> frozenset[str] | None:
    def test(units: frozenset[str]) -> Status:
        status = answers.get(units)
        if status is None:
            raise _Asks(units)
        return status

    try:
        strategy(test)
    except _Asks as ask:
        return ask.units
    return None
