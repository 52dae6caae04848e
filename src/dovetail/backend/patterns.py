"""Parts of graphs by content: operators, attributes, types, quantisation and constants, whatever things are called.

A pattern is small however large its constants are: they are in it by their digests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.node import Node, without_facts

_MOST_STEPS = 20_000
"""Of a search: a graph of many equal nodes could be searched for ever."""


@dataclass(frozen=True, slots=True)
class PatternNode:
    """One node: the digest of what it is, and its tensors by number; constants are in the digest."""

    op: str
    label: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartPattern:
    """Nodes in topological order; a tensor has the same number wherever it is read or made."""

    nodes: tuple[PatternNode, ...]

    @classmethod
    def of(cls, graph: Graph) -> PartPattern | None:
        """Return the pattern of a graph; None with control flow, whose bodies read tensors by name."""
        if any(node.bodies() for node in graph.nodes):
            return None
        numbers: dict[str, int] = {}
        found: list[PatternNode] = []
        for node in graph.nodes:
            sides = (_read(graph, node), _made(node))
            reads, makes = (tuple(numbers.setdefault(name, len(numbers)) for name in side) for side in sides)
            found.append(PatternNode(node.op, label_of(graph, node), reads, makes))
        return cls(tuple(found))

    def find(self, graph: Graph) -> tuple[str, ...]:
        """Return the nodes of the first part of a graph that is like this, by name; empty where there is none."""
        ops = {item.op for item in self.nodes}
        labels = {node.name: label_of(graph, node) for node in graph.nodes if node.op in ops and not node.bodies()}
        return _Matching(self.nodes, graph, labels).run()


def label_of(graph: Graph, node: Node) -> str:
    """Return the digest of a node without names: operator, attributes, types, and which of its inputs are equal."""
    names = {name: f"t{index}" for index, name in enumerate(dict.fromkeys((*node.inputs, *node.outputs))) if name}
    inputs, outputs = (tuple(names.get(name, "") for name in side) for side in (node.inputs, node.outputs))
    constants = {names[name]: graph.constants[name] for name in names if name in graph.constants}
    single = Graph(
        "node",
        (Node("node", node.op, inputs, outputs, without_facts(node.attributes), node.domain),),
        tuple(dict.fromkeys(name for name in inputs if name and name not in constants)),
        tuple(name for name in outputs if name),
        {short: graph.types[name] for name, short in names.items()},
        constants,
    )
    return single.digest


def _read(graph: Graph, node: Node) -> list[str]:
    return [name for name in read_tensors(node) if name not in graph.constants]


def _made(node: Node) -> list[str]:
    return [name for name in node.outputs if name]


class _Matching:
    """Assign the nodes of a pattern one by one; different tensors of the pattern are different in the graph."""

    def __init__(self, wanted: Sequence[PatternNode], graph: Graph, labels: dict[str, str]) -> None:
        self._wanted = wanted
        self._graph = graph
        self._labels = labels
        self._tensors: dict[int, str] = {}
        self._nodes: list[str] = []
        self._steps = 0

    def run(self) -> tuple[str, ...]:
        return tuple(self._nodes) if self._extend() else ()

    def _extend(self) -> bool:
        if len(self._nodes) == len(self._wanted):
            return True
        item = self._wanted[len(self._nodes)]
        for node in self._candidates(item):
            self._steps += 1
            if self._steps > _MOST_STEPS:
                return False
            if self._labels.get(node.name) != item.label or node.name in self._nodes:
                continue
            before = dict(self._tensors)
            if self._bind(item, node):
                self._nodes.append(node.name)
                if self._extend():
                    return True
                self._nodes.pop()
            self._tensors = before
        return False

    def _candidates(self, item: PatternNode) -> Iterator[Node]:
        known = next((self._tensors[number] for number in item.reads if number in self._tensors), None)
        yield from self._graph.nodes if known is None else self._graph.consumers.get(known, ())

    def _bind(self, item: PatternNode, node: Node) -> bool:
        names, numbers = (*_read(self._graph, node), *_made(node)), (*item.reads, *item.makes)
        if len(names) != len(numbers):
            return False
        for number, name in zip(numbers, names, strict=True):
            if self._tensors.setdefault(number, name) != name:
                return False
        return len(set(self._tensors.values())) == len(self._tensors)
