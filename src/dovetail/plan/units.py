"""Units: nodes that must be placed together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.node import Node
from dovetail.ir.roles import CLAMP_HOSTS, CLAMPS, is_pass_through


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes that share one placement; the first one does the work, the others clamp or move its values."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Units:
    """The units of a graph in topological order; every node is in exactly one."""

    items: tuple[Unit, ...]

    @cached_property
    def of_node(self) -> Mapping[str, Unit]:
        """Map a node's name to its unit."""
        return {node: unit for unit in self.items for node in unit.nodes}

    @cached_property
    def by_name(self) -> Mapping[str, Unit]:
        """Map a unit's name to the unit."""
        return {unit.name: unit for unit in self.items}


def find_units(graph: Graph, joins: Callable[[Node], bool] = lambda node: True) -> Units:
    """Group the nodes of a graph into units.

    A clamp joins the operator before it when nothing else reads what it clamps. An operator that only moves
    values joins the unit that makes them when `joins` agrees. Every unit is convex: a member's only computed
    input comes from inside the unit.
    """
    members: dict[str, list[str]] = {}
    root_of: dict[str, str] = {}
    for node in graph.nodes:
        host = clamp_host(graph, node) or (_source(graph, node) if joins(node) else None)
        root = root_of[host.name] if host is not None else node.name
        root_of[node.name] = root
        members.setdefault(root, []).append(node.name)
    return Units(tuple(Unit(root, tuple(names)) for root, names in members.items()))


def clamp_host(graph: Graph, node: Node) -> Node | None:
    """Return the node whose result this clamp may limit in the same step, or None."""
    if node.domain or node.op not in CLAMPS or any(name and name not in graph.constants for name in node.inputs[1:]):
        return None
    host = graph.producers.get(node.inputs[0])
    if host is None or host.domain or host.op not in CLAMP_HOSTS or node.inputs[0] in graph.outputs:
        return None
    return host if len(graph.consumers[node.inputs[0]]) == 1 else None


def _source(graph: Graph, node: Node) -> Node | None:
    if not is_pass_through(graph, node):
        return None
    computed = [tensor for tensor in read_tensors(node) if tensor in graph.producers]
    if computed != [node.inputs[0]]:
        return None
    source = graph.producers[node.inputs[0]]
    return source if graph.types[node.inputs[0]].holds_reals else None
