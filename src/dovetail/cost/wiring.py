"""The tensors that run between units, and how often a placement makes the work change sides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from dovetail.ir.graph import Graph, read_tensors
from dovetail.plan.placement import HOST
from dovetail.plan.units import Units

WORLD = ""
"""Stands among units for the world outside: inputs come from it and outputs go to it, on the CPU in float."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A tensor made by one unit and read by others; either end may be WORLD."""

    tensor: str
    producer: str
    consumers: tuple[str, ...]


@dataclass(frozen=True)
class Wiring:
    """The units in topological order and the wires between them."""

    order: tuple[str, ...]
    wires: tuple[Wire, ...]

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """Map every unit to the units that it reads from, WORLD included."""
        sources: dict[str, dict[str, None]] = {unit: {} for unit in self.order}
        for wire in self.wires:
            for consumer in wire.consumers:
                if consumer != WORLD:
                    sources[consumer][wire.producer] = None
        return {unit: tuple(names) for unit, names in sources.items()}

    @cached_property
    def ends(self) -> tuple[str, ...]:
        """Return the units whose results leave the graph."""
        return tuple(dict.fromkeys(wire.producer for wire in self.wires if WORLD in wire.consumers))

    def neighbours(self, units: Collection[str]) -> list[tuple[str, ...]]:
        """Return some units in groups that hang together by wires, in the order given."""
        group = {unit: unit for unit in units}
        for wire in self.wires:
            ends = {group[unit] for unit in (wire.producer, *wire.consumers) if unit in group}
            if len(ends) > 1:
                first = min(ends)
                group = {unit: first if head in ends else head for unit, head in group.items()}
        return [tuple(unit for unit in units if group[unit] == head) for head in dict.fromkeys(group.values())]

    def partition_count(self, target_of: Mapping[str, str]) -> int:
        """Return the partitions of a placement, in linear time: one more than the changes of target on a longest path.

        Exact for the CPU and one other target; a lower bound with more.
        """
        changes: dict[str, int] = {WORLD: 0}
        deepest = 0
        for unit in self.order:
            mine = target_of[unit]
            away = int(mine != HOST)
            changes_so_far = away
            for source in self.sources[unit]:
                theirs = HOST if source == WORLD else target_of[source]
                changes_so_far = max(changes_so_far, changes[source] + (theirs != mine))
            changes[unit] = changes_so_far
            deepest = max(deepest, changes_so_far)
        for unit in self.ends:
            if unit != WORLD:
                deepest = max(deepest, changes[unit] + (target_of[unit] != HOST))
        return deepest + 1


def wire_units(graph: Graph, units: Units) -> Wiring:
    """Return the wiring of a graph; tensors that stay inside one unit are not wires."""
    of_node = units.of_node
    readers: dict[str, dict[str, None]] = {}
    for node in graph.nodes:
        for tensor in read_tensors(node):
            if tensor not in graph.constants:
                readers.setdefault(tensor, {})[of_node[node.name].name] = None
    for tensor in graph.outputs:
        readers.setdefault(tensor, {})[WORLD] = None
    makers = {tensor: of_node[node.name].name for tensor, node in graph.producers.items()}
    wires: list[Wire] = []
    for tensor, names in readers.items():
        producer = makers.get(tensor, WORLD)
        consumers = tuple(name for name in names if name != producer)
        if consumers and tensor not in graph.constants:
            wires.append(Wire(tensor, producer, consumers))
    return Wiring(_order(graph, units), tuple(wires))


def _order(graph: Graph, units: Units) -> tuple[str, ...]:
    """Sort units topologically; the order of first nodes need not be one when a unit spans others."""
    of_node = units.of_node
    follows: dict[str, set[str]] = {unit.name: set() for unit in units.items}
    needs: dict[str, set[str]] = {unit.name: set() for unit in units.items}
    for node in graph.nodes:
        mine = of_node[node.name].name
        for tensor in read_tensors(node):
            maker = graph.producers.get(tensor)
            if maker is not None and of_node[maker.name].name != mine:
                follows[of_node[maker.name].name].add(mine)
                needs[mine].add(of_node[maker.name].name)
    waiting = {name: len(found) for name, found in needs.items()}
    ready: list[str] = [name for name, count in waiting.items() if count == 0]
    for name in ready:
        for follower in sorted(follows[name]):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    return tuple(ready)
