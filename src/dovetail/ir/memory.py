"""Count the bytes that a graph needs while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir.graph import Graph, read_tensors


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """Bytes of a graph as it is stored: constants, and what is alive at once where nodes run in order.

    For one sample: sizes that are symbolic or unknown count as 1.
    """

    constant_bytes: int
    alive_bytes: int


def graph_memory(graph: Graph) -> GraphMemory:
    """Return the memory of a graph; inputs live until they are read last, outputs to the end."""
    counts = graph.element_counts
    sizes = {name: counts[name] * kind.dtype.size_bytes for name, kind in graph.types.items()}
    last = {name: index for index, node in enumerate(graph.nodes) for name in read_tensors(node)}
    last |= dict.fromkeys(graph.outputs, len(graph.nodes))
    alive = set(graph.inputs)
    now = most = sum(sizes[name] for name in alive)
    for index, node in enumerate(graph.nodes):
        made = {name for name in node.outputs if name} - alive
        now += sum(sizes[name] for name in made)
        alive |= made
        most = max(most, now)
        over = {name for name in (*made, *read_tensors(node)) if name in alive and last.get(name, index) <= index}
        now -= sum(sizes[name] for name in over)
        alive -= over
    return GraphMemory(sum(sizes[name] for name in graph.constants), most)
