"""The cheapest placement on two places as a minimum cut, which judges the integer programme: exact, polynomial.

A tensor is brought to the other side once, however many of its readers are there. Two extra vertices say so: one that
must be on the far side as soon as one reader is, and one likewise for the other direction.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from dovetail.errors import SearchError
from dovetail.search.optimum.problem import OUTSIDE, Assignment, Problem

_MOST = 2**30
"""Capacities are 32-bit integers: costs are scaled so that their sum is near this and rounded."""


def minimum_cut(problem: Problem) -> Assignment:
    """Return the cheapest assignment when at most two places are in play and switches cost nothing extra.

    Demands are not looked at. Raises SearchError when there are more places or a cost per switch: these need the
    integer programme.
    """
    places = sorted({problem.home, *(place for ladder in problem.choices for place in ladder)})
    if len(places) > 2 or problem.switch_ns:
        raise SearchError("a minimum cut places on two places, without a cost per partition.")
    return _Network(problem, places[0], places[-1]).cut()


class _Network:
    """Vertices are the units, then the outside, two for every wire, then source and sink."""

    def __init__(self, problem: Problem, near: int, far: int) -> None:
        self._problem = problem
        self._near, self._far = near, far
        self._arcs: dict[tuple[int, int], float] = {}
        size = problem.size
        self._outside = size
        self._source = size + 1 + 2 * len(problem.wires)
        self._sink = self._source + 1
        self._endless: set[tuple[int, int]] = set()
        self._place_outside()
        for unit in range(size):
            self._place(unit)
        for index, _wire in enumerate(problem.wires):
            self._wire(size + 1 + 2 * index, index)

    def _place_outside(self) -> None:
        near = self._problem.home == self._near
        self._endless.add((self._source, self._outside) if near else (self._outside, self._sink))

    def _place(self, unit: int) -> None:
        ladder, costs = self._problem.choices[unit], self._problem.cost_ns[unit]
        at = dict(zip(ladder, costs, strict=True))
        # A unit on the near side has its arc to the sink cut, and the other way round.
        for arc, place in (((unit, self._sink), self._near), ((self._source, unit), self._far)):
            if place in at:
                self._arcs[arc] = at[place]
            else:
                self._endless.add(arc)

    def _wire(self, vertex: int, index: int) -> None:
        wire = self._problem.wires[index]
        there = wire.cost_ns.get((self._near, self._far), 0.0)
        back = wire.cost_ns.get((self._far, self._near), 0.0)
        maker = self._vertex(wire.producer)
        self._arcs[maker, vertex] = there
        self._arcs[vertex + 1, maker] = back
        for consumer in wire.consumers:
            self._endless.add((vertex, self._vertex(consumer)))
            self._endless.add((self._vertex(consumer), vertex + 1))

    def _vertex(self, unit: int) -> int:
        return self._outside if unit == OUTSIDE else unit

    def cut(self) -> Assignment:
        total = sum(self._arcs.values())
        # A power of two keeps integer costs exact.
        scale = 2.0 ** math.floor(math.log2(_MOST / total)) if total else 1.0
        capacity = {arc: round(cost * scale) for arc, cost in self._arcs.items()}
        endless = min(sum(capacity.values()) + 1, 2**31 - 1)
        capacity.update(dict.fromkeys(self._endless, endless))
        rows, columns = np.array(list(capacity), dtype=np.int32).T
        values = np.array(list(capacity.values()), dtype=np.int32)
        shape = (self._sink + 1, self._sink + 1)
        graph = csr_matrix((values, (rows, columns)), shape=shape)
        flow = maximum_flow(graph, self._source, self._sink).flow
        left = graph - flow
        left.data = (left.data > 0).astype(np.int32)
        left.eliminate_zeros()
        reached = set(breadth_first_order(left, self._source, return_predecessors=False).tolist())
        places = [self._near if unit in reached else self._far for unit in range(self._problem.size)]
        return tuple(ladder.index(place) for ladder, place in zip(self._problem.choices, places, strict=True))
