"""Cut a partition between the pieces that a compiler computes as one, until the first that deviates is named.

A part from the beginning up to a cut gives every tensor that the rest reads. Where such a part is equal and a longer
one is not, what lies between deviates from equal inputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.backend.pieces import CompiledPieces
from dovetail.compare.sides import Arrays, Sides, differs
from dovetail.compare.steps import Steps
from dovetail.errors import CompileError, DeviceError
from dovetail.ir.graph import Graph
from dovetail.partition.schedule import part_of_graph


@dataclass(frozen=True, slots=True)
class Cuts:
    """What parts of a partition gave: steps of the tensors at each place that was cut."""

    equal: Mapping[int, Mapping[str, Steps]]
    """Parts of so many pieces in which nothing differs."""
    first: tuple[int, int] | None
    """So many pieces are equal, and so many are not; None where nothing was found that differs."""
    found: Mapping[str, Steps]
    """The tensors at the end of the shortest part that differs."""
    tried: int


@dataclass(slots=True)
class Parts:
    """Parts of a partition from its beginning: each is compiled and run at most once, and only so many are."""

    graph: Graph
    pieces: CompiledPieces
    sides: Sides
    fed: Sequence[Arrays]
    most: int
    as_graph: bool = False
    """Compile parts as graphs whose tensors can be read, and not as they would be deployed."""
    tried: int = 0
    _known: dict[int, Mapping[str, Steps] | None] = field(default_factory=dict)

    def between(self, low: int, high: int) -> tuple[int, Mapping[str, Steps]] | None:
        """Return the place nearest to the middle where the partition can be cut, and what is there."""
        for count in _from_middle(low, high):
            found = self._at(count)
            if found is not None:
                return count, found
        return None

    def behind(self, count: int) -> Mapping[str, Steps] | None:
        """Return what is at the first place behind so many pieces; None where there is none before the end."""
        places = (self._at(place) for place in range(count, len(self.pieces.nodes)))
        return next((found for found in places if found is not None), None)

    def _at(self, count: int) -> Mapping[str, Steps] | None:
        if count not in self._known:
            if self.tried >= self.most:
                return None
            names = {name for piece in self.pieces.nodes[:count] for name in piece}
            part = part_of_graph(self.graph, [node for node in self.graph.nodes if node.name in names])
            self._known[count] = self._compared(part) if self.pieces.keeps(part) else None
        return self._known[count]

    def _compared(self, part: Graph) -> Mapping[str, Steps] | None:
        self.tried += 1
        try:
            return self.sides.compare(part, self.fed, as_graph=self.as_graph)
        except (CompileError, DeviceError):
            # The whole is compiled though a part of it is not: another place will do.
            return None


def find_cuts(parts: Parts, end: Mapping[str, Steps]) -> Cuts:
    """Return what cutting finds; `end` is what is known of the whole partition.

    Where the end differs the cuts close in on a first deviation. Where it is equal they are spread, nearest the middle
    first, until one differs.
    """
    total = len(parts.pieces.nodes)
    equal: dict[int, Mapping[str, Steps]] = {}
    if differs(end):
        return _narrowed(parts, equal, (0, total), end)
    waiting = deque([(0, total)])
    while waiting:
        low, high = waiting.popleft()
        middle = parts.between(low, high)
        if middle is None:
            continue
        count, found = middle
        if differs(found):
            return _narrowed(parts, equal, (max((at for at in equal if at < count), default=0), count), found)
        equal[count] = found
        waiting += [(low, count), (count, high)]
    return Cuts(equal, None, {}, parts.tried)


def _narrowed(
    parts: Parts, equal: dict[int, Mapping[str, Steps]], ends: tuple[int, int], found: Mapping[str, Steps]
) -> Cuts:
    low, high = ends
    while (middle := parts.between(low, high)) is not None:
        if differs(middle[1]):
            high, found = middle
        else:
            low = middle[0]
            equal[low] = middle[1]
    return Cuts(equal, (low, high), found, parts.tried)


def _from_middle(low: int, high: int) -> Iterator[int]:
    """Yield the numbers between two others, those nearest to the middle first."""
    middle = (low + high) // 2
    yield from sorted(range(low + 1, high), key=lambda count: abs(count - middle))
