"""The smallest part of a graph that a test fails: connected nodes of which none can be left out, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dovetail.bisection import smallest
from dovetail.errors import GraphError
from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.node import Node
from dovetail.partition.schedule import part_of_graph


@dataclass(frozen=True, slots=True)
class ReductionBudget:
    """How often parts may be tried, and for how long.

    Halving the ends of 1,000 nodes takes 20 tries, and leaving single ones out of what remains some tens.
    """

    tries: int = 100
    seconds: float = 600.0


class PartReduction:
    """The search for the smallest failing part; `best` is what it has at any time, so that it can be interrupted."""

    def __init__(
        self,
        graph: Graph,
        fails: Callable[[Graph], bool],
        budget: ReductionBudget | None = None,
        advance: Callable[[int, int], None] = lambda tries, nodes: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.best = graph
        self.tries = 0
        self.minimal = False
        """Whether no node can be left out; False until the end, and where the budget ended first."""
        self._graph = graph
        self._fails = fails
        self._budget = budget or ReductionBudget()
        self._advance = advance
        self._clock = clock
        self._end = clock() + self._budget.seconds
        self._known: dict[frozenset[str], bool] = {}

    @property
    def left_s(self) -> float:
        """Return the seconds that are left of the budget."""
        return max(0.0, self._end - self._clock())

    def run(self) -> Graph:
        """Return the smallest part that failed; the graph itself is taken to fail."""
        spent = False

        def asked(nodes: Sequence[Node]) -> bool:
            nonlocal spent
            key = frozenset(node.name for node in nodes)
            if key not in self._known:
                if self.tries >= self._budget.tries or not self.left_s:
                    spent = True
                    return False
                self._known[key] = self._try(nodes)
            return self._known[key]

        smallest(self._graph.nodes, asked, partial(connected_pieces, self._graph))
        self.minimal = not spent
        return self.best

    def _try(self, nodes: Sequence[Node]) -> bool:
        try:
            part = part_of_graph(self._graph, nodes)
        except GraphError:
            # Nobody reads what these nodes make.
            return False
        self.tries += 1
        failed = self._fails(part)
        if failed:
            self.best = part
        self._advance(self.tries, len(self.best.nodes))
        return failed


def connected_pieces(graph: Graph, nodes: Sequence[Node]) -> list[list[Node]]:
    """Return nodes of a graph in groups, each in their order, that share no tensor but constants."""
    root = list(range(len(nodes)))

    def find(index: int) -> int:
        while root[index] != index:
            root[index] = root[root[index]]
            index = root[index]
        return index

    seen: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for tensor in (*read_tensors(node), *node.outputs):
            if tensor and tensor not in graph.constants:
                root[find(index)] = find(seen.setdefault(tensor, index))
    groups: dict[int, list[Node]] = {}
    for index, node in enumerate(nodes):
        groups.setdefault(find(index), []).append(node)
    return list(groups.values())
