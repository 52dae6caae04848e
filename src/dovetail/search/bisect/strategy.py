"""Which candidate to try next: cumulative group testing over an order of lines, as a coroutine.

A candidate keeps a set of lines at low precision and raises all others. Lines are taken from the least likely end in
pools that fail about as often as they pass; what passes stays low for good, so that lines that do harm only together
are met together. A pool that fails is halved, by odds, down to one culprit. The answer is a set that was itself tested.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from dovetail.search.policy import GroupTestPolicy
from dovetail.search.trial import Status


class Outcome(Enum):
    """How a bisection ended."""

    FOUND = "found"
    NOTHING_TO_DO = "nothing to do: everything passes at low precision"
    UNREACHABLE = "unreachable: even with everything raised it fails"
    UNTESTABLE = "untestable: neither end can be tested"


@dataclass(frozen=True, slots=True)
class BisectResult:
    """The culprits; raising these, and `unresolved`, was tested and passes.

    `unresolved` are lines among which a culprit is, but no candidate that tells them apart can be tested.
    """

    outcome: Outcome
    culprits: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    runs: int = 0


Steps = Generator[frozenset[str], Status, BisectResult]
"""Yields the lines to keep low, takes the verdict, returns the result."""


_Prefix = tuple[int, Status]
"""A length and the verdict on that many lines."""


class _Unreachable(Exception):
    """Nothing passes; the argument is the outcome."""


@dataclass(slots=True)
class _State:
    policy: GroupTestPolicy
    odds: dict[str, float]
    beside: tuple[float, ...]
    light: frozenset[str] = frozenset()
    """Lines that hardly anything speaks against: those beside a culprit are counted without them."""
    clean: list[str] = field(default_factory=list)
    culprits: list[str] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)
    known: dict[frozenset[str], Status] = field(default_factory=dict)
    runs: int = 0
    since: int = 0
    """Lines that were settled since the last culprit."""
    passed: bool = False
    failures: int = 0
    again: int = 1
    """Second tries that gave a verdict less those that did not: judges crash by chance, or at some candidates."""

    def __post_init__(self) -> None:
        self.since = len(self.policy.beside)

    def test(self, low: frozenset[str], tries: int = 1) -> Generator[frozenset[str], Status, Status]:
        """Have a candidate tested unless its verdict is known; try again when it cannot be tested."""
        status = self.known.get(low)
        while status in (None, Status.CANNOT_TEST) and tries > 0:
            tries -= 1
            self.runs += 1
            second = status is not None
            status = yield low
            self.known[low] = status
            self.passed |= status is Status.PASS
            self.failures += status is Status.FAIL
            if second:
                self.again += -1 if status is Status.CANNOT_TEST else 1
        return status or Status.CANNOT_TEST

    def test_prefix(self, rest: Sequence[str], sizes: Sequence[int]) -> Generator[frozenset[str], Status, _Prefix]:
        """Have prefixes of the rest tested until one can be: the first once more, as long as that has helped."""
        status = Status.CANNOT_TEST
        for size in sizes:
            first = size == sizes[0] and self.again > 0
            if self.failures >= self.policy.failures and not self.passed:
                yield from self.reach()
            status = yield from self.test(frozenset((*self.clean, *rest[:size])), 2 if first else 1)
            if status is not Status.CANNOT_TEST:
                return size, status
        return sizes[0], status

    def reach(self) -> Generator[frozenset[str], Status, None]:
        """See that a candidate passes when everything is raised; whatever passed before has shown that already."""
        if self.passed:
            return
        status = yield from self.test(frozenset(), 1 + self.policy.retries)
        if status is not Status.PASS:
            raise _Unreachable(Outcome.UNREACHABLE if status is Status.FAIL else Outcome.UNTESTABLE)

    def share(self, line: str) -> float:
        """Return the chance that a line is a culprit, given how many were found among those that are settled."""
        settled = sum(self.odds[item] for item in (*self.clean, *self.culprits, *self.unresolved))
        rate = (1.0 + len(self.culprits)) / (1.0 + settled)
        return min(self.policy.most_chance, self.odds[line] * rate)


def bisect_lines(
    order: Sequence[str],
    weights: Sequence[float],
    *,
    certify: bool = False,
    beside: bool = False,
    policy: GroupTestPolicy | None = None,
) -> Steps:
    """Look for the culprits among lines given from least to most likely, with positive weights.

    With `beside` the order is that of the network, so that culprits are mostly side by side.
    With `certify` every single culprit is put back and tested in the end, and dropped when that passes.
    """
    policy = policy or GroupTestPolicy()
    total = sum(weights) or 1.0
    weighted = tuple(zip(order, weights, strict=True))
    odds = {
        line: min(policy.most_odds, policy.expected * _share(policy, weight / total, len(order)))
        for line, weight in weighted
    }
    light = frozenset(line for line, weight in weighted if weight < policy.light * total / len(order))
    state = _State(policy, odds, policy.beside if beside else (), light)
    low = yield from state.test(frozenset(order), 1 + policy.retries)
    if low is Status.PASS:
        return BisectResult(Outcome.NOTHING_TO_DO, runs=state.runs)
    try:
        if low is Status.CANNOT_TEST:
            yield from state.reach()
        rest = list(order)
        while rest:
            rest = yield from _next_pool(state, rest)
        yield from state.reach()
    except _Unreachable as end:
        return BisectResult(end.args[0], runs=state.runs)
    if certify:
        yield from _certify(state)
    return BisectResult(Outcome.FOUND, tuple(state.culprits), tuple(state.unresolved), state.runs)


def _share(policy: GroupTestPolicy, share: float, count: int) -> float:
    """Return a line's share of the odds: some of them are even, for what speaks against lines may mislead."""
    return (1.0 - policy.even) * share + policy.even / count


def _next_pool(state: _State, rest: list[str]) -> Generator[frozenset[str], Status, list[str]]:
    """Settle some lines and return the others."""
    shares = [state.share(line) for line in rest]
    heavy = (index for index, line in enumerate(rest) if line not in state.light)
    for index, chance in zip(heavy, state.beside[state.since :], strict=False):
        shares[index] = max(shares[index], chance)
    size = _median(shares, 0, len(rest))
    candidate, status = yield from state.test_prefix(rest, _nearby(size, 1, len(rest)))
    if status is Status.PASS:
        state.clean += rest[:candidate]
        state.since += sum(line not in state.light for line in rest[:candidate])
        return rest[candidate:]
    if status is Status.FAIL:
        return (yield from _split(state, rest, shares, candidate))
    status = yield from state.test(frozenset((*state.clean, rest[0])), state.policy.retries)
    if status is Status.PASS:
        state.clean.append(rest[0])
        state.since += rest[0] not in state.light
    else:
        state.since = 0
        (state.culprits if status is Status.FAIL else state.unresolved).append(rest[0])
    return rest[1:]


def _split(
    state: _State, rest: list[str], shares: Sequence[float], failing: int
) -> Generator[frozenset[str], Status, list[str]]:
    """Find the line that makes a prefix of the rest fail, and return what lies beyond it."""
    passes = 0
    while failing - passes > 1:
        middle = passes + _median(_given_one(shares[passes:failing]), 0, failing - passes - 1)
        candidate, status = yield from state.test_prefix(rest, _nearby(middle, passes + 1, failing - 1))
        if status is Status.CANNOT_TEST:
            status = yield from state.test(frozenset((*state.clean, *rest[:candidate])), state.policy.retries)
        if status is Status.PASS:
            passes = candidate
        elif status is Status.FAIL:
            failing = candidate
        else:
            break
    state.clean += rest[:passes]
    left = rest[passes:failing]
    state.since = 0
    (state.culprits if len(left) == 1 else state.unresolved).extend(left)
    return rest[failing:]


def _certify(state: _State) -> Generator[frozenset[str], Status, None]:
    """Put every culprit back alone; what passes then was needed only with others that are raised now."""
    for line in tuple(state.culprits):
        status = yield from state.test(frozenset((*state.clean, line)))
        if status is Status.PASS:
            state.culprits.remove(line)
            state.clean.append(line)


def _median(shares: Sequence[float], start: int, most: int) -> int:
    """Return how many lines make it as likely as not that there is a culprit among them; at least 1."""
    chance, size = 1.0, start
    while size < most:
        after = chance * (1.0 - shares[size])
        # Stop on the side that is nearer to one half.
        if after < 0.5 and (size > start and 0.5 - after > chance - 0.5):
            break
        chance, size = after, size + 1
        if chance < 0.5:
            break
    return max(1, size)


def _given_one(shares: Sequence[float]) -> list[float]:
    """Return shares of a pool that holds a culprit, as if it held exactly one: they halve its weight."""
    weights = [share / (1.0 - share) for share in shares]
    total = sum(weights)
    left, conditional = 1.0, []
    for weight in weights:
        share = weight / total
        conditional.append(min(1.0, share / left) if left > 0 else 1.0)
        left -= share
    return conditional


def _nearby(middle: int, least: int, most: int) -> list[int]:
    """Return the middle and up to four numbers around it, nearest first."""
    around = (middle, middle - 1, middle + 1, middle - 2, middle + 2)
    return [number for number in dict.fromkeys(around) if least <= number <= most]


def bound(lines: int, culprits: int) -> int:
    """Return the runs that a bisection should need at most: `2 log2(n) + 3 k`."""
    return math.floor(2 * math.log2(max(2, lines)) + 3 * culprits)
