"""Pure search strategies over named units; they know nothing of models.

`test` says whether a set of raised units meets the target. Monotonicity (a superset of a passing set passes) is used
to skip tests while searching, never in the certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.search.trial import Status

TestSet = Callable[[frozenset[str]], Status]


@dataclass(frozen=True, slots=True)
class Minimal:
    """Hold a passing set of which every single removal was tested and did not pass."""

    kept: tuple[str, ...]
    removals: tuple[tuple[str, Status], ...]


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


def minimise(passing: Sequence[str], test: TestSet) -> Minimal:
    """Return a 1-minimal subset of a passing set, most important units first.

    Removes chunks of halving size from the least important end, then single units until none can go.
    """
    kept = list(passing)
    size = len(kept) // 2
    while size >= 2:
        end = len(kept)
        while end > 0:
            rest = kept[: max(0, end - size)] + kept[end:]
            if test(frozenset(rest)) is Status.PASS:
                kept = rest
            end -= size
        size //= 2
    removed = True
    while removed:
        removed = False
        for unit in reversed(tuple(kept)):
            if test(frozenset(kept) - {unit}) is Status.PASS:
                kept.remove(unit)
                removed = True
    removals = tuple((unit, test(frozenset(kept) - {unit})) for unit in kept)
    return Minimal(tuple(kept), removals)
