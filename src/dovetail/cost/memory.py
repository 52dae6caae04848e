"""Memory of a plan: weights, the peak of activations, and the copies that crossing targets makes."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.cost.record import MemoryCost
from dovetail.cost.sizes import stored_bytes
from dovetail.ir.graph import Graph, read_tensors
from dovetail.plan.placement import Placement


def estimate_memory(
    graph: Graph, placements: Mapping[str, Placement], weights: Mapping[str, int], copies: int
) -> MemoryCost:
    """Return the memory of a graph whose nodes run in order; `weights` are bytes of constants by target,
    `copies` bytes that cross between targets.

    Every tensor lives from the node that makes it to the last one that reads it; graph outputs live to the end.
    """
    last: dict[str, int] = {}
    for index, node in enumerate(graph.nodes):
        last.update(dict.fromkeys((name for name in read_tensors(node) if name not in graph.constants), index))
    last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    ending: dict[int, list[str]] = {}
    for tensor, index in last.items():
        ending.setdefault(index, []).append(tensor)
    alive: dict[str, int] = {}
    peak: dict[str, int] = {}
    size: dict[str, tuple[str, int]] = {}
    for index, node in enumerate(graph.nodes):
        place = placements[node.name]
        for tensor in node.outputs:
            if tensor:
                bytes_made = stored_bytes(graph, tensor, place.precision)
                size[tensor] = place.target, bytes_made
                alive[place.target] = alive.get(place.target, 0) + bytes_made
        peak[place.target] = max(peak.get(place.target, 0), alive.get(place.target, 0))
        unread = [name for name in node.outputs if name and name not in last]
        for tensor in (*ending.get(index, ()), *unread):
            # Graph inputs end too, and were never counted.
            if tensor in size:
                target, bytes_freed = size[tensor]
                alive[target] -= bytes_freed
    return MemoryCost(weights, peak, copies)
