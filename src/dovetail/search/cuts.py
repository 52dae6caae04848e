"""Where the fast simulation cuts a graph: pieces that take about as long, at places where little is alive.

The places depend on the plan alone and not on what ran before it, so that a journal, a worker and a replay get the
same scores. A cut must not change a bit: see ADR 12.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.macs import node_macs
from dovetail.ir.node import Node
from dovetail.plan.units import clamp_host
from dovetail.search.policy import CutPolicy

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_FOLDED = frozenset({"Add", "Sum", "Sub", "Mul", "Div", "BatchNormalization"})


@dataclass(frozen=True, slots=True)
class GraphSection:
    """Consecutive nodes of a quantised graph, and the tensors that cross the cut after them."""

    nodes: tuple[Node, ...]
    crossing: tuple[str, ...]
    """Tensors that were made by now and are read later, or are outputs of the graph."""


def cut_points(graph: Graph, policy: CutPolicy) -> tuple[str, ...]:
    """Return the last node of each piece of a float graph; nothing for a small graph, which stays whole."""
    most = min(policy.pieces, len(graph.nodes) // policy.nodes)
    if most < 2 or any(name in graph.constants or name in graph.inputs for name in graph.outputs):
        return ()
    done = list(itertools.accumulate(_effort(graph, node, policy) for node in graph.nodes))
    alive = _alive(graph)
    clamped, fused = _clamped(graph), _fused(graph)
    ends: list[int] = []
    for number in range(1, most):
        low, high = (done[-1] * (number + side * policy.leeway) / most for side in (-1, 1))
        near = [at for at in range(len(done) - 1) if low <= done[at] <= high and at not in clamped]
        if near and (best := min(near, key=lambda at: (at in fused, alive[at]))) not in ends:
            ends.append(best)
    return tuple(graph.nodes[at].name for at in sorted(ends))


def sections(graph: Graph, ends: Sequence[str]) -> tuple[GraphSection, ...]:
    """Cut a quantised graph after the nodes of these names where no bit changes; a conversion goes with its reader."""
    last, stops, fused = _last_use(graph.nodes, graph.outputs), frozenset(ends), _fused(graph)
    cut: list[GraphSection] = []
    nodes: list[Node] = []
    alive: dict[str, None] = {}
    for at, node in enumerate(graph.nodes):
        nodes.append(node)
        alive |= dict.fromkeys(filter(None, node.outputs))
        if node.name not in stops and at + 1 < len(graph.nodes):
            continue
        alive = {name: None for name in alive if last.get(name, -1) > at}
        # ONNX Runtime takes no arrays of bfloat16.
        passes = alive and at not in fused and not any(graph.types[name].dtype is DType.BF16 for name in alive)
        if passes or at + 1 == len(graph.nodes):
            cut.append(GraphSection(tuple(nodes), tuple(alive)))
            nodes = []
    return tuple(cut)


def _effort(graph: Graph, node: Node, policy: CutPolicy) -> float:
    """Return about how long a node takes, in elements that are read or written."""
    touched = sum(graph.element_counts[name] for name in (*node.inputs, *node.outputs) if name)
    return policy.node_elements + touched + (node_macs(graph, node) or 0) / policy.macs_per_element


def _last_use(nodes: Sequence[Node], outputs: Iterable[str]) -> dict[str, int]:
    """Return the position of the last node that reads a tensor; outputs are read after all."""
    last = {tensor: at for at, node in enumerate(nodes) for tensor in read_tensors(node)}
    return {**last, **dict.fromkeys(outputs, len(nodes))}


def _alive(graph: Graph) -> list[int]:
    """Return after every node how many elements it and those before it have made that are read later."""
    changes = [0] * (len(graph.nodes) + 1)
    last = _last_use(graph.nodes, graph.outputs)
    for at, node in enumerate(graph.nodes):
        for tensor in filter(None, node.outputs):
            changes[at] += graph.element_counts[tensor]
            changes[last.get(tensor, at)] -= graph.element_counts[tensor]
    return list(itertools.accumulate(changes))


def _clamped(graph: Graph) -> frozenset[int]:
    """Return the positions between an operator and the clamp that it applies itself."""
    places = {node.name: at for at, node in enumerate(graph.nodes)}
    hosts = ((clamp_host(graph, node), at) for at, node in enumerate(graph.nodes))
    return frozenset(between for host, at in hosts if host for between in range(places[host.name], at))


def _fused(graph: Graph) -> frozenset[int]:
    """Return the positions between what ONNX Runtime computes in one step where it is float, with other roundings.

    It folds constants into a product, and a sum begins a convolution that is added to it.
    """
    producers = {tensor: at for at, node in enumerate(graph.nodes) for tensor in node.outputs}
    between: set[int] = set()
    for at, node in enumerate(graph.nodes):
        if node.op not in _FOLDED or node.domain:
            continue
        reads = [name for name in node.inputs if name and name not in graph.constants and name in producers]
        floats = [name for name in reads if graph.types[name].quant is None]
        products = {graph.nodes[producers[name]].op for name in floats}
        if "Conv" in products or (len(reads) == 1 and not products.isdisjoint(_PRODUCTS)):
            between.update(range(min(producers[name] for name in reads), at))
    return frozenset(between)
