"""The placement problem: units with choices, wires between them, and what each way to place them costs.

Units, places and levels are numbers here. A unit's choices are places in the order of its ladder: the position in it
is the unit's level, and a higher level is taken to be at least as accurate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

Assignment = tuple[int, ...]
"""The level of every unit."""

OUTSIDE = -1
"""Stands for the outside world at the ends of wires."""


@dataclass(frozen=True, slots=True)
class PricedWire:
    """A tensor between units; `cost_ns` and `crossing_bytes` by (place of the producer, place of a consumer).

    It is brought to every place once, however many consumers are there; pairs that are missing cost nothing.
    """

    producer: int
    consumers: tuple[int, ...]
    cost_ns: Mapping[tuple[int, int], float]
    crossing_bytes: Mapping[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Demands:
    """Bounds of what a solution may be; None does not bound.

    Every group of units is placed at one place. `most_weight_bytes` bounds weights and crossing copies together.
    """

    most_partitions: int | None = None
    most_crossing_bytes: int | None = None
    most_latency_ns: float | None = None
    most_weight_bytes: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Problem:
    """A placement problem; units are in topological order.

    `home` is the place where inputs come from and outputs go to, `target_of` the target of every place, `cost_ns`
    what every unit takes at each of its choices, `switch_ns` what a change of target on a longest path adds. Without
    `migrates` a unit leaves the target of its lowest level only when a clause names it, or one before it.
    """

    choices: tuple[tuple[int, ...], ...]
    cost_ns: tuple[tuple[float, ...], ...]
    wires: tuple[PricedWire, ...]
    target_of: tuple[int, ...]
    home: int = 0
    switch_ns: float = 0.0
    weight_bytes: tuple[tuple[int, ...], ...] = ()
    demands: Demands = field(default_factory=Demands)
    migrates: bool = True

    @cached_property
    def size(self) -> int:
        """Return the number of units."""
        return len(self.choices)

    @cached_property
    def top(self) -> Assignment:
        """Return every unit at its highest level."""
        return tuple(len(ladder) - 1 for ladder in self.choices)

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """Return for every unit the units that it reads from, OUTSIDE included."""
        sources: list[dict[int, None]] = [{} for _ in self.choices]
        for wire in self.wires:
            for consumer in wire.consumers:
                if consumer != OUTSIDE:
                    sources[consumer][wire.producer] = None
        return tuple(tuple(names) for names in sources)

    @cached_property
    def neighbours(self) -> tuple[frozenset[int], ...]:
        """Return for every unit those that it reads from or that read from it."""
        neighbours: list[set[int]] = [set() for _ in self.choices]
        for unit, sources in enumerate(self.sources):
            for source in sources:
                if source not in (unit, OUTSIDE):
                    neighbours[unit].add(source)
                    neighbours[source].add(unit)
        return tuple(map(frozenset, neighbours))

    @cached_property
    def wires_of(self) -> tuple[tuple[PricedWire, ...], ...]:
        """Return for every unit the wires that begin or end there."""
        wires: list[list[PricedWire]] = [[] for _ in self.choices]
        for wire in self.wires:
            for unit in {wire.producer, *wire.consumers} - {OUTSIDE}:
                wires[unit].append(wire)
        return tuple(map(tuple, wires))

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Return the units whose results leave the graph."""
        return tuple(dict.fromkeys(wire.producer for wire in self.wires if OUTSIDE in wire.consumers))

    def movable(self, named: Iterable[int]) -> frozenset[int]:
        """Return the units that may leave the target of their lowest level when clauses name some units."""
        if self.migrates:
            return frozenset(range(self.size))
        movable = set(named)
        for unit in range(self.size):
            if not movable.isdisjoint(self.sources[unit]):
                movable.add(unit)
        return frozenset(movable)

    def stays(self, assignment: Sequence[int], movable: frozenset[int]) -> bool:
        """Tell whether every other unit is on the target of its lowest level."""
        return all(
            unit in movable or self.target_of[ladder[level]] == self.target_of[ladder[0]]
            for unit, (ladder, level) in enumerate(zip(self.choices, assignment, strict=True))
        )

    def place(self, assignment: Sequence[int], unit: int) -> int:
        """Return where a unit is; OUTSIDE is at home."""
        return self.home if unit == OUTSIDE else self.choices[unit][assignment[unit]]

    def cost(self, assignment: Sequence[int]) -> float:
        """Return the latency of an assignment."""
        work = sum(costs[level] for costs, level in zip(self.cost_ns, assignment, strict=True))
        return work + self._moved(assignment, self.wires) + self.switch_ns * self.switches(assignment)

    def added_ns(self, assignment: Sequence[int], unit: int, level: int) -> float:
        """Return what the latency grows by when one unit changes its level.

        Looks at the wires of that unit alone, unless the change is one of target.
        """
        after = list(assignment)
        after[unit] = level
        if self.target_of[self.place(assignment, unit)] != self.target_of[self.place(after, unit)]:
            return self.cost(after) - self.cost(assignment)
        wires = self.wires_of[unit]
        work = self.cost_ns[unit][level] - self.cost_ns[unit][assignment[unit]]
        return work + self._moved(after, wires) - self._moved(assignment, wires)

    def crossing_bytes(self, assignment: Sequence[int]) -> int:
        """Return the bytes that cross between targets."""
        return sum(wire.crossing_bytes.get(pair, 0) for wire, pair in self._moves(assignment, self.wires))

    def switches(self, assignment: Sequence[int]) -> int:
        """Return the changes of target on a longest path from the outside to the outside."""
        at_home = self.target_of[self.home]
        target = [self.target_of[self.place(assignment, unit)] for unit in range(self.size)]
        changes = [0] * self.size
        for unit in range(self.size):
            changes[unit] = int(target[unit] != at_home)
            for source in self.sources[unit]:
                if source != OUTSIDE:
                    changes[unit] = max(changes[unit], changes[source] + (target[source] != target[unit]))
        leaving = [changes[unit] + (target[unit] != at_home) for unit in self.ends if unit != OUTSIDE]
        return max((*changes, *leaving), default=0)

    def meets_demands(self, assignment: Sequence[int]) -> bool:
        """Tell whether an assignment keeps within the demands."""
        demands = self.demands
        if any(len({self.place(assignment, unit) for unit in group}) > 1 for group in demands.groups):
            return False
        crossing = self.crossing_bytes(assignment)
        checks: list[tuple[float, float | None]] = [
            (self.switches(assignment) + 1, demands.most_partitions),
            (crossing, demands.most_crossing_bytes),
            (self.cost(assignment), demands.most_latency_ns),
            (self._weights(assignment) + crossing, demands.most_weight_bytes),
        ]
        return all(most is None or value <= most * (1 + 1e-12) for value, most in checks)

    def _weights(self, assignment: Sequence[int]) -> int:
        if not self.weight_bytes:
            return 0
        return sum(sizes[level] for sizes, level in zip(self.weight_bytes, assignment, strict=True))

    def _moved(self, assignment: Sequence[int], wires: Iterable[PricedWire]) -> float:
        return sum(wire.cost_ns.get(pair, 0.0) for wire, pair in self._moves(assignment, wires))

    def _moves(
        self, assignment: Sequence[int], wires: Iterable[PricedWire]
    ) -> list[tuple[PricedWire, tuple[int, int]]]:
        moves: list[tuple[PricedWire, tuple[int, int]]] = []
        for wire in wires:
            start = self.place(assignment, wire.producer)
            for end in dict.fromkeys(self.place(assignment, unit) for unit in wire.consumers):
                moves.append((wire, (start, end)))
        return moves
