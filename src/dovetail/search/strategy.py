"""Pure search strategies over named units; they know nothing of models.

`test` says whether a set of raised units meets the target. Monotonicity (a superset of a passing set passes) is used
to skip tests while searching, never in the certificate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.bisection import boundary
from dovetail.search.bisect.strategy import bisect_lines
from dovetail.search.policy import CulpritPolicy, GroupTestPolicy
from dovetail.search.trial import Status

TestSet = Callable[[frozenset[str]], Status]


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class PassingSet:
    """A set of units that passes, most important first, with what is known of parts of it."""

    kept: tuple[str, ...]
    removals: tuple[tuple[str, Status], ...] = ()
    """The verdict on every single removal that was tested."""
    is_crowded: bool = False
    """It is large, and no group of its units can go."""

    @property
    def is_minimal(self) -> bool:
        """Tell whether every single removal was tested, and none passed."""
        return len(self.removals) == len(self.kept)


def shortest_prefix(order: Sequence[str], test: TestSet) -> int | None:
    """Return the length of a passing prefix of `order` whose one-shorter prefix does not pass.

    Gallops 1, 2, 4, ... and bisects. The empty prefix is taken as tested and not passing. None when even the whole
    order does not pass.
    """

    def passes(length: int) -> bool:
        return test(frozenset(order[:length])) is Status.PASS

    fails, size = 0, min(1, len(order))
    while size > fails:
        if passes(size):
            return boundary(fails, size, passes)
        fails, size = size, min(size * 2, len(order))
    return None


def minimise(passing: Sequence[str], test: TestSet, first: int = 1, go_on: Callable[[], bool] = _always) -> PassingSet:
    """Return a 1-minimal subset of a passing set, given most important units first.

    Removes from the least important end, chunks that double after a success and halve after a failure, until every
    single unit was tried against the set as it is. The first chunk has `first` units. When `go_on` says no, what is
    left is returned as it is.
    """
    kept = list(passing)
    failed: dict[str, Status] = {}
    end, size = len(kept), max(1, first)
    while go_on():
        if end == 0:
            # A removal changes the set that earlier units were tried against, so those are tried again.
            if all(unit in failed for unit in kept):
                break
            end, size = len(kept), 1
        size = min(size, end)
        chunk = kept[end - size : end]
        if size == 1 and chunk[0] in failed:
            end -= 1
            continue
        status = test(frozenset(kept) - frozenset(chunk))
        if status is Status.PASS:
            del kept[end - size : end]
            failed.clear()
            end -= size
            size *= 2
        elif size == 1:
            failed[chunk[0]] = status
            end -= 1
        else:
            size //= 2
    return PassingSet(tuple(kept), tuple((unit, failed[unit]) for unit in kept if unit in failed))


@dataclass(frozen=True, slots=True)
class GroupTest:
    """How `isolate` tests groups."""

    culprits: CulpritPolicy
    groups: GroupTestPolicy


def isolate(
    passing: Sequence[str], test: TestSet, options: GroupTest, go_on: Callable[[], bool] = _always
) -> PassingSet:
    """Return a passing subset of a passing set, most important units first, that is small where few units matter.

    Takes groups that fail about as often as they pass, as a bisection does, and fewer tests than `minimise` for that;
    the last unit is taken to matter most after the first. When `go_on` says no, the smallest set so far is returned.
    """
    policy = options.culprits
    order = [*reversed(passing[:-1]), *passing[-1:]]
    weights = [1.0 / (1.0 + rank / policy.rank_scale) for rank in range(len(passing))]
    steps = bisect_lines(order, [*reversed(weights[:-1]), weights[0]], policy=options.groups)
    everything = frozenset(passing)
    best = everything
    low = next(steps)
    while best:
        status = test(everything - low)
        if status is Status.PASS:
            best = min(best, everything - low, key=len)
        try:
            low = steps.send(status)
        except StopIteration:
            break
        if not go_on():
            break
    return PassingSet(tuple(unit for unit in passing if unit in best))


@dataclass(frozen=True, slots=True)
class Sweep:
    """How `sweep` takes groups from a set."""

    groups: int
    """Groups that a set is divided into."""
    crowd: int
    """Groups that have to stay after which an order is given up in which none could go."""
    least: int
    """Units of a set that is small enough."""


def sweep(
    test: TestSet,
    orders: Sequence[Sequence[str]],
    options: Sweep,
    pays: Callable[[frozenset[str], frozenset[str]], bool],
    go_on: Callable[[], bool] = _always,
) -> frozenset[str]:
    """Return a part of a passing set that passes, given in several orders: groups of neighbours in each go in turn.

    A group goes where the rest passes; it is not tested where `pays` says that the rest is no better than the set. The
    sets become smaller until in no order a group can go, or until they are small enough.
    """
    kept, idle, turn = frozenset(orders[0]), 0, 0
    while idle < len(orders) and len(kept) >= options.least and go_on():
        order = [unit for unit in orders[turn % len(orders)] if unit in kept]
        before, failed = kept, 0
        for number in range(options.groups):
            start, stop = (len(order) * edge // options.groups for edge in (number, number + 1))
            rest = kept.difference(order[start:stop])
            if rest == kept or not pays(kept, rest) or not go_on():
                continue
            if test(rest) is Status.PASS:
                kept = rest
            else:
                failed += 1
            if kept == before and failed >= options.crowd:
                break
        idle = idle + 1 if kept == before else 0
        turn += kept == before
    return kept


@dataclass(slots=True)
class _Block:
    start: int
    stop: int
    damage: float

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class LocateBudget:
    """How much `locate` may measure: `most` groups in all, of which equal `blocks` come first."""

    most: int
    blocks: int


def locate(
    units: Sequence[str],
    measure: Callable[[Sequence[str]], float],
    budget: LocateBudget,
    announce: Callable[[Sequence[Sequence[str]]], None] = lambda groups: None,
    go_on: Callable[[], bool] = _always,
) -> dict[str, float]:
    """Return an estimate for every unit of what `measure` gives for it alone, within a budget.

    `units` are neighbours in this order. They are measured in blocks, and the block that does most harm is split
    first, so that a few harmful units among many cost few measurements. A unit that was never measured alone gets
    its share of its block. `announce` is told of groups that will be measured whatever comes of the others. When
    `go_on` says no, no block is split any more.
    """
    count = len(units)
    if count == 0 or budget.most < 1:
        return dict.fromkeys(units, 0.0)
    parts = count if count <= budget.most else min(budget.blocks, budget.most)
    edges = [count * index // parts for index in range(parts + 1)]
    announce([units[start:stop] for start, stop in itertools.pairwise(edges)])
    blocks = [_Block(start, stop, measure(units[start:stop])) for start, stop in itertools.pairwise(edges)]
    left = budget.most - parts
    while left >= 2 and go_on():
        wide = [block for block in blocks if block.size > 1 and block.damage > 0]
        if not wide:
            break
        worst = max(wide, key=lambda block: block.damage / block.size)
        middle = (worst.start + worst.stop) // 2
        blocks.remove(worst)
        announce([units[worst.start : middle], units[middle : worst.stop]])
        for start, stop in ((worst.start, middle), (middle, worst.stop)):
            blocks.append(_Block(start, stop, measure(units[start:stop])))
        left -= 2
    return {unit: block.damage / block.size for block in blocks for unit in units[block.start : block.stop]}
