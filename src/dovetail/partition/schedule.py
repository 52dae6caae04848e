"""Cut a placed graph into partitions by scheduling it.

Run every node of one target that can run, and what that unlocks on the same target; that is a partition. Then switch
target. The groups are convex and acyclic by construction, and for two targets no schedule has fewer of them than the
better of the two starts. Constants tie nothing together: each partition gets its own copy. See docs/adr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.node import Node
from dovetail.partition.partitioned import BorderTensor, Partition, PartitionedGraph
from dovetail.plan.quantized import QuantizedGraph


def partition(quantized: QuantizedGraph, *, overlap: bool = False) -> PartitionedGraph:
    """Return the partitions of a quantised graph in schedule order; O(nodes + edges) for each target.

    With `overlap`, what another target waits for becomes a partition of its own, so that both can go on at the same
    time: more partitions, and more of them at once.
    """
    graph = quantized.graph
    targets = {node.name: quantized.placements[node.name].target for node in graph.nodes}
    wanted = frozenset(graph.outputs)
    partitions = tuple(
        Partition(index, targets[nodes[0].name], _subgraph(graph, nodes, index, wanted))
        for index, nodes in enumerate(schedule(graph, targets, overlap=overlap))
    )
    return PartitionedGraph(quantized, partitions, _borders(graph, partitions))


def schedule(graph: Graph, targets: Mapping[str, str], *, overlap: bool = False) -> list[list[Node]]:
    """Return the nodes of every partition, in an order in which the partitions can run."""
    links = _Links(graph, targets)
    ready = {links.target[index] for index, count in enumerate(links.needs) if count == 0}
    runs = [_run(links, first) for first in sorted(ready)]
    best = min(runs, key=len, default=[])
    if overlap:
        best = [part for group in best for part in _halves(links, group)]
    return [[graph.nodes[index] for index in sorted(group)] for group in best]


class _Links:
    """Who follows whom, by position in the graph."""

    def __init__(self, graph: Graph, targets: Mapping[str, str]) -> None:
        self.target = [targets[node.name] for node in graph.nodes]
        self.needs = [0] * len(graph.nodes)
        self.followers: list[list[int]] = [[] for _ in graph.nodes]
        made_by = {tensor: index for index, node in enumerate(graph.nodes) for tensor in node.outputs if tensor}
        for index, node in enumerate(graph.nodes):
            sources = {made_by[tensor] for tensor in read_tensors(node) if tensor in made_by}
            self.needs[index] = len(sources)
            for source in sources:
                self.followers[source].append(index)
        self.switches = self._switches()

    def _switches(self) -> list[int]:
        """Count for every node the target changes on the longest path to an end."""
        switches = [0] * len(self.target)
        for index in reversed(range(len(self.target))):
            for user in self.followers[index]:
                switches[index] = max(switches[index], switches[user] + (self.target[user] != self.target[index]))
        return switches


def _run(links: _Links, first: str) -> list[list[int]]:
    needs = list(links.needs)
    ready: dict[str, list[int]] = {}
    for index, count in enumerate(needs):
        if count == 0:
            ready.setdefault(links.target[index], []).append(index)
    current = first
    groups: list[list[int]] = []
    while ready:
        group = ready.pop(current)
        for index in group:
            for user in links.followers[index]:
                needs[user] -= 1
                if needs[user] == 0:
                    # Iterating over a list that grows: what this group unlocks on its own target joins it.
                    (group if links.target[user] == current else ready.setdefault(links.target[user], [])).append(user)
        groups.append(group)
        if ready:
            current = max(sorted(ready), key=lambda name: max(links.switches[index] for index in ready[name]))
    return groups


def _halves(links: _Links, group: Sequence[int]) -> list[list[int]]:
    """Return what other targets wait for, with all that it needs, and the rest of a group; or the group as it is."""
    inside = set(group)
    waited: set[int] = set()
    for index in sorted(group, reverse=True):
        followers = links.followers[index]
        if any(links.target[user] != links.target[index] for user in followers) or not waited.isdisjoint(followers):
            waited.add(index)
    rest = inside - waited
    return [sorted(waited), sorted(rest)] if waited and rest else [list(group)]


def part_of_graph(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Return some nodes of a graph, in its order, as a graph: what they read and do not make is an input."""
    return _subgraph(graph, nodes, 1, frozenset(graph.outputs))


def _subgraph(graph: Graph, nodes: Sequence[Node], index: int, wanted: Set[str]) -> Graph:
    """Return a part of the graph; nothing here looks at the whole graph, so all parts together take linear time."""
    inner = dict.fromkeys(tensor for node in nodes for tensor in node.outputs if tensor)
    read = dict.fromkeys(tensor for node in nodes for tensor in read_tensors(node))
    inside = {node.name for node in nodes}
    outputs = [
        tensor
        for tensor in inner
        if tensor in wanted or any(user.name not in inside for user in graph.consumers.get(tensor, ()))
    ]
    inputs = [tensor for tensor in read if tensor not in inner and tensor not in graph.constants]
    if index == 0:
        # An output that is a constant has no producer; the first partition hands it out.
        fixed = dict.fromkeys(tensor for tensor in graph.outputs if tensor in graph.constants)
        outputs += fixed
        read |= fixed
    names = {**read, **inner}
    return Graph(
        name=f"{graph.name}/{index}",
        nodes=tuple(nodes),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        types={name: graph.types[name] for name in names},
        constants={name: graph.constants[name] for name in read if name in graph.constants},
        origins={name: graph.origins[name] for name in names if name in graph.origins},
    )


def _borders(graph: Graph, partitions: Sequence[Partition]) -> tuple[BorderTensor, ...]:
    producer = {tensor: part.index for part in partitions for tensor in part.graph.outputs}
    consumers: dict[str, list[int]] = {}
    for part in partitions:
        for tensor in part.graph.inputs:
            if tensor in producer:
                consumers.setdefault(tensor, []).append(part.index)
    return tuple(
        BorderTensor(tensor, graph.types[tensor], producer[tensor], tuple(users), graph.types[tensor].size_bytes())
        for tensor, users in consumers.items()
    )
