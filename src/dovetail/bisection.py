"""Halving, pure: what a search and the repair of a compilation have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def boundary(fails: int, holds: int, test: Callable[[int], bool]) -> int:
    """Return a number up to `holds` that a test holds for while it fails for the one below.

    It is taken to fail for the number `fails`, and to hold for the larger number `holds`. Takes log2 of their distance
    tests.
    """
    while holds - fails > 1:
        middle = (fails + holds) // 2
        if test(middle):
            holds = middle
        else:
            fails = middle
    return holds


def unsettled(chunks: Iterable[Sequence[_Item]], settles: Callable[[Sequence[_Item]], bool]) -> list[_Item]:
    """Return the single items that do not settle, in order; a chunk that does not is halved, its first half first."""
    queue = [chunk for chunk in chunks if chunk]
    single: list[_Item] = []
    while queue:
        chunk = queue.pop(0)
        if settles(chunk):
            continue
        if len(chunk) == 1:
            single.append(chunk[0])
        else:
            half = len(chunk) // 2
            queue[:0] = [chunk[:half], chunk[half:]]
    return single
