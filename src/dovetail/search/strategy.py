"""Pure search strategies over named units; they know nothing of models.

`test` says whether a set of raised units meets the target. Monotonicity (a superset of a passing set passes) is used
to skip tests while searching, never in the certificate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.search.bisect.strategy import bisect_lines
from dovetail.search.trial import Status

TestSet = Callable[[frozenset[str]], Status]

_CROWD = 4
"""Units that matter after which a large set is taken for crowded, if they are most of those that were settled."""


@dataclass(frozen=True, slots=True)
class Minimal:
    """Hold a passing set, and the verdict on every single removal from it that was tested.

    `complete` says that every single removal was tested and did not pass.
    """

    kept: tuple[str, ...]
    removals: tuple[tuple[str, Status], ...]

    @property
    def complete(self) -> bool:
        """Tell whether the set is 1-minimal by test."""
        return len(self.removals) == len(self.kept)


@dataclass(frozen=True, slots=True)
class Isolated:
    """Hold a passing set; `crowded` says that nearly every unit that was looked at matters."""

    kept: tuple[str, ...]
    crowded: bool = False


def shortest_prefix(order: Sequence[str], test: TestSet) -> int | None:
    """Return the length of a passing prefix of `order` whose one-shorter prefix does not pass.

    Gallops 1, 2, 4, ... and bisects. The empty prefix is taken as tested and not passing. None when even the whole
    order does not pass.
    """
    fails, size = 0, 1
    while True:
        size = min(size, len(order))
        if size == fails:
            return None
        if test(frozenset(order[:size])) is Status.PASS:
            break
        fails, size = size, size * 2
    while size - fails > 1:
        middle = (size + fails) // 2
        if test(frozenset(order[:middle])) is Status.PASS:
            size = middle
        else:
            fails = middle
    return size


def minimise(
    passing: Sequence[str], test: TestSet, go_on: Callable[[], bool] = lambda: True, first: int | None = None
) -> Minimal:
    """Return a 1-minimal subset of a passing set, most important units first.

    Removes from the least important end, chunks that double after a success and halve after a failure, until every
    single unit was tried against the set as it is. The first chunk has `first` units, by default a quarter of all.
    When `go_on` says no, what is left is returned as it is.
    """
    kept = list(passing)
    failed: dict[str, Status] = {}
    end, size = len(kept), first or max(1, len(kept) // 4)
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
    return Minimal(tuple(kept), tuple((unit, failed[unit]) for unit in kept if unit in failed))


def isolate(
    passing: Sequence[str], test: TestSet, go_on: Callable[[], bool] = lambda: True, patient: bool = False
) -> Isolated:
    """Return a passing subset of a passing set, most important units first, that is small where few units matter.

    Takes groups that fail about as often as they pass, as a bisection does, and fewer tests than `minimise` for that;
    the last unit is taken to matter most after the first. When `go_on` says no, or, unless `patient`, nearly every unit
    matters, the smallest set so far is returned.
    """
    order = [*reversed(passing[:-1]), *passing[-1:]]
    weights = [1.0 / (1.0 + rank / 8) for rank in range(len(passing))]
    steps = bisect_lines(order, [*reversed(weights[:-1]), weights[0]])
    everything = frozenset(passing)
    best, clean, matter, crowded = everything, frozenset[str](), 0, False
    low = next(steps)
    while not crowded:
        status = test(everything - low)
        if status is Status.PASS:
            clean |= low
            best = min(best, everything - low, key=len)
        matter += status is Status.FAIL and len(low - clean) == 1
        crowded = not patient and matter >= _CROWD and matter > len(clean)
        try:
            low = steps.send(status)
        except StopIteration:
            break
        if not go_on():
            break
    return Isolated(tuple(unit for unit in passing if unit in best), crowded)


@dataclass(slots=True)
class _Block:
    start: int
    stop: int
    damage: float

    @property
    def size(self) -> int:
        return self.stop - self.start


def locate(
    units: Sequence[str],
    measure: Callable[[Sequence[str]], float],
    budget: int,
    announce: Callable[[Sequence[Sequence[str]]], None] = lambda groups: None,
) -> dict[str, float]:
    """Return an estimate for every unit of what `measure` gives for it alone, in at most `budget` measurements.

    `units` are neighbours in this order. They are measured in blocks, and the block that does most harm is split
    first, so that a few harmful units among many cost few measurements. A unit that was never measured alone gets
    its share of its block. `announce` hears of groups that will be measured whatever comes of the others.
    """
    count = len(units)
    if count == 0 or budget < 1:
        return dict.fromkeys(units, 0.0)
    parts = count if count <= budget else max(1, budget // 3)
    edges = [count * index // parts for index in range(parts + 1)]
    announce([units[start:stop] for start, stop in itertools.pairwise(edges)])
    blocks = [_Block(start, stop, measure(units[start:stop])) for start, stop in itertools.pairwise(edges)]
    left = budget - parts
    while left >= 2:
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
