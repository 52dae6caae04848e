"""Which candidates a bisection asks for, one after the other: a log can only be opened again if these stay the same."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dovetail.ir import AnyArray
from dovetail.search.bisect.strategy import Outcome, _nearby, bisect_lines
from dovetail.search.policy import GroupTestPolicy
from dovetail.search.trial import Status

GOLDEN = Path(__file__).parents[1] / "golden" / "questions.txt"

Judge = Callable[[frozenset[str], int], Status]
"""Judges a set of low lines, given how often it was asked before."""

CANNOT_TEST = Status.CANNOT_TEST


def _avoids(*culprits: int) -> Judge:
    names = {f"l{number}" for number in culprits}
    return lambda low, times: Status.FAIL if low & names else Status.PASS


def _together(*harms: tuple[int, ...]) -> Judge:
    sets = [{f"l{number}" for number in harm} for harm in harms]
    return lambda low, times: Status.FAIL if any(harm <= low for harm in sets) else Status.PASS


def _late(judge: Judge, after: int, most: int) -> Judge:
    """Return a judge that crashes the first times at each candidate of few lines."""
    return lambda low, times: CANNOT_TEST if 0 < len(low) <= most and times < after else judge(low, times)


def _crashing(judge: Judge, size: Callable[[int], bool]) -> Judge:
    """Return a judge that always crashes at candidates of some sizes."""
    return lambda low, times: CANNOT_TEST if size(len(low)) else judge(low, times)


def _always(status: Status) -> Judge:
    return lambda low, times: status


CASES: dict[str, tuple[int, Judge]] = {
    "nothing to do": (9, _always(Status.PASS)),
    "always fails": (40, _always(Status.FAIL)),
    "never tested": (9, _always(CANNOT_TEST)),
    "one line": (1, _avoids(0)),
    "two lines": (2, _avoids(1)),
    "one of seven": (7, _avoids(4)),
    "three of sixty": (60, _avoids(7, 20, 51)),
    "neighbours of sixty": (60, _avoids(20, 21, 23, 40, 41)),
    "half of thirty": (30, _avoids(*range(0, 30, 2))),
    "all of twelve": (12, _avoids(*range(12))),
    "together": (40, _together((3, 30), (10, 11, 12), (25,))),
    "needed for a while": (12, _together((2, 5), (5, 9), (7,))),
    "crashes once": (30, _late(_avoids(4, 17), 1, 30)),
    "crashes twice": (30, _late(_avoids(4, 17), 2, 30)),
    "crashes thrice": (30, _late(_avoids(4, 17), 3, 29)),
    "small ones crash twice": (30, _late(_avoids(4, 17), 2, 9)),
    "a third always crashes": (40, _crashing(_avoids(7, 30), lambda size: size % 3 == 1)),
    "most small ones crash": (40, _crashing(_avoids(7, 30), lambda size: 0 < size < 14 and size != 5)),
    "all low crashes": (20, _crashing(_avoids(6), lambda size: size == 20)),
    "all but the ends crash": (20, _crashing(_avoids(6), lambda size: 0 < size < 20)),
}
WEIGHTS: dict[str, Callable[[int], AnyArray]] = {
    "rising": lambda count: 2.0 + np.arange(count),
    "uneven": lambda count: np.random.RandomState(count).uniform(0.01, 1.0, count),
}


"""No equal ones: ties hang on how floats are added up, which Python 3.12 does otherwise than 3.11."""


def _questions(count: int, judge: Judge, weights: str, how: str) -> str:
    """Return how many lines each candidate has low, which are raised in the end, and how many runs that took."""
    lines = [f"l{number}" for number in range(count)]
    steps = bisect_lines(lines, WEIGHTS[weights](count).tolist(), beside=how == "beside", certify=how == "certify")
    times: Counter[frozenset[str]] = Counter()
    asked, low = [], next(steps)
    while True:
        asked.append(str(len(low)))
        status = judge(low, times[low])
        times[low] += 1
        try:
            low = steps.send(status)
        except StopIteration as end:
            result = end.value
            found = f"{' '.join(result.culprits)} | {' '.join(result.unresolved)}"
            return f"{' '.join(asked)} -> {result.outcome.name} {found} | {result.runs}"


def _lines() -> Iterator[str]:
    for name, (count, judge) in CASES.items():
        for weights in WEIGHTS:
            for how in ("plain", "beside", "certify"):
                yield f"{name}, {weights}, {how}: {_questions(count, judge, weights, how)}"


def test_the_same_candidates_are_asked_for_in_every_version() -> None:
    """DOVETAIL_UPDATE_GOLDEN=1 writes them; logs of earlier versions are refused then."""
    text = "\n".join(_lines()) + "\n"
    if os.environ.get("DOVETAIL_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def _run(status: Status, policy: GroupTestPolicy) -> tuple[list[int], Outcome]:
    """Return how many of twenty lines each candidate has low when every verdict is the same, and how it ends."""
    steps = bisect_lines([f"l{number}" for number in range(20)], [1.0] * 20, policy=policy)
    sizes = [len(next(steps))]
    while True:
        try:
            sizes.append(len(steps.send(status)))
        except StopIteration as end:
            return sizes, end.value.outcome


@pytest.mark.parametrize("failures", [0, 1, 2, 5])
def test_after_so_many_failures_it_is_asked_whether_anything_passes(failures: int) -> None:
    sizes, outcome = _run(Status.FAIL, GroupTestPolicy(failures=failures))
    assert outcome is Outcome.UNREACHABLE
    assert len(sizes) == max(1, failures) + 1
    assert (sizes[0], sizes[-1], 0 in sizes[:-1]) == (20, 0, False)


@pytest.mark.parametrize("retries", [0, 1, 2, 3])
def test_both_ends_are_tried_again_as_often_as_the_policy_says(retries: int) -> None:
    sizes, outcome = _run(CANNOT_TEST, GroupTestPolicy(retries=retries))
    assert outcome is Outcome.UNTESTABLE
    assert sizes == [20] * (1 + retries) + [0] * (1 + retries)


def test_every_line_needs_a_weight() -> None:
    for weights in ([1.0], [1.0, 1.0, 1.0]):
        with pytest.raises(ValueError, match="zip"):
            next(bisect_lines(["a", "b"], weights))


@pytest.mark.parametrize(
    ("middle", "least", "most", "numbers"),
    [(5, 1, 9, [5, 4, 6, 3, 7]), (1, 1, 9, [1, 2, 3]), (9, 1, 9, [9, 8, 7]), (2, 2, 2, [2]), (4, 3, 6, [4, 3, 5, 6])],
)
def test_what_is_tried_instead_is_near(middle: int, least: int, most: int, numbers: list[int]) -> None:
    assert _nearby(middle, least, most) == numbers
