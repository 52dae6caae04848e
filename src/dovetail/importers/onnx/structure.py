"""Names and order: every tensor defined once, every read defined, nodes sorted and named."""

from __future__ import annotations

import heapq

from onnx import GraphProto, NodeProto

from dovetail.errors import LoadError
from dovetail.importers.onnx.reader import OnnxSource, bodies_of, node_label


def arrange(source: OnnxSource) -> None:
    """Sort nodes topologically and give each a unique name; raise LoadError on cycles and undefined names."""
    _arrange_graph(source.graph, set(source.constants), set(), source)


def _arrange_graph(graph: GraphProto, constants: set[str], outside: set[str], source: OnnxSource) -> None:
    where = source.where
    defined = set(outside)
    for name in [*(value.name for value in graph.input), *constants, *(tensor.name for tensor in graph.initializer)]:
        if not name or (name in defined and name not in outside):
            raise LoadError(f"{where}: tensor '{name}' is defined twice, or has no name.")
        defined.add(name)
    produced: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and (name in produced or name in defined - outside):
                raise LoadError(
                    f"{where}: tensor '{name}' is computed twice, the second time by {node_label(node)}.",
                    source_node=node.name,
                )
            if name:
                produced[name] = index
    known = defined | set(produced)
    for node in graph.node:
        for name in free_names(node):
            if name not in known:
                raise LoadError(f"{where}: {node_label(node)} reads '{name}', which nothing computes.")
    for value in graph.output:
        if value.name not in known:
            raise LoadError(f"{where}: output '{value.name}' of graph '{graph.name}' is computed by no node.")
    _sort(graph, produced, where)
    _name_nodes(graph, source.origins)
    for node in graph.node:
        for body in bodies_of(node):
            _arrange_graph(body, set(), known, source)


def free_names(node: NodeProto) -> list[str]:
    """Return the tensors that a node reads, those that its bodies read from around it included."""
    names = [name for name in node.input if name]
    for body in bodies_of(node):
        names.extend(body_captures(body))
    return names


def body_captures(graph: GraphProto) -> list[str]:
    """Return the tensors that a body reads from the graph around it, each once, in order of first use."""
    inside = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        inside.update(node.output)
    captures: dict[str, None] = {}
    for node in graph.node:
        captures.update(dict.fromkeys(name for name in free_names(node) if name not in inside))
    captures.update(dict.fromkeys(value.name for value in graph.output if value.name not in inside))
    return list(captures)


def _sort(graph: GraphProto, produced: dict[str, int], where: str) -> None:
    needs = [{produced[name] for name in free_names(node) if name in produced} for node in graph.node]
    if all(max(need, default=-1) < index for index, need in enumerate(needs)):
        return
    followers: list[list[int]] = [[] for _ in needs]
    for index, need in enumerate(needs):
        for before in need:
            followers[before].append(index)
    missing = [len(need) for need in needs]
    ready = [index for index, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for follower in followers[index]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, follower)
    if len(order) != len(needs):
        _raise_cycle(graph, needs, set(order), where)
    nodes = [NodeProto.FromString(graph.node[index].SerializeToString()) for index in order]
    del graph.node[:]
    graph.node.extend(nodes)


def _raise_cycle(graph: GraphProto, needs: list[set[int]], done: set[int], where: str) -> None:
    # Walking backwards from any unsorted node stays among unsorted nodes, so it must meet itself on a cycle.
    at = next(index for index in range(len(needs)) if index not in done)
    seen: set[int] = set()
    while at not in seen:
        seen.add(at)
        at = min(need for need in needs[at] if need not in done)
    node = graph.node[at]
    raise LoadError(f"{where}: {node_label(node)} lies on a cycle: it needs its own output.", source_node=node.name)


def _name_nodes(graph: GraphProto, origins: dict[str, tuple[str, ...]]) -> None:
    taken = {node.name for node in graph.node}
    seen: set[str] = set()
    for node in graph.node:
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        stem = node.name or f"{node.op_type}:{next(name for name in node.output if name)}"
        name, number = stem, 1
        while name in seen or (name in taken and name != node.name) or (node.name and name == node.name):
            name, number = f"{stem}.{number}", number + 1
        if node.name:
            origins[name] = (node.name,)
        node.name = name
        seen.add(name)
