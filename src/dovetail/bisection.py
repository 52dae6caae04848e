"""Halving, pure: what a search, the repair of a compilation and the reduction of a case have in common."""

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


def smallest(
    items: Sequence[_Item],
    fails: Callable[[Sequence[_Item]], bool],
    pieces: Callable[[Sequence[_Item]], Sequence[Sequence[_Item]]] = lambda kept: (kept,),
) -> list[_Item]:
    """Return some of the items, in order, that fail together and of which no single one can be left out.

    All of them are taken to fail. Halves that fail alone come first: what passes costs the most, and is half as large
    each time. Then the ends are cut off by bisection, and runs of falling length left out (delta debugging). `pieces`
    divides what is left where its parts have nothing to do with each other: one that fails alone is enough. A test that
    only says no, as one does whose budget is spent, ends the search with what failed last.
    """
    kept = list(items)
    while len(kept) > 1:
        middle = len(kept) // 2
        half = next((half for half in (kept[:middle], kept[middle:]) if fails(half)), None)
        if half is None:
            break
        kept = half
    head = kept[: boundary(0, len(kept), lambda count: fails(kept[:count]))]
    tail = head[-boundary(0, len(head), lambda count: fails(head[-count:])) :]
    kept = _failing_piece(tail, fails, pieces)
    size = max(len(kept) // 2, 1)
    while len(kept) > 1:
        before, start = len(kept), 0
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if rest and fails(rest):
                kept = _failing_piece(rest, fails, pieces)
                start = start if len(kept) == len(rest) else 0
            else:
                start += size
        if size == 1 and len(kept) == before:
            break
        size = max(min(size // 2, len(kept) // 2), 1)
    return kept


def _failing_piece(
    kept: list[_Item],
    fails: Callable[[Sequence[_Item]], bool],
    pieces: Callable[[Sequence[_Item]], Sequence[Sequence[_Item]]],
) -> list[_Item]:
    """Return the first of several pieces that fails alone, or everything where none does."""
    found = pieces(kept)
    return kept if len(found) < 2 else next((list(piece) for piece in found if fails(piece)), kept)
