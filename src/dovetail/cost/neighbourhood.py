"""Units with those around them as a graph of their own, and a text of what their prices depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.node import Node
from dovetail.partition.schedule import part_of_graph
from dovetail.plan.units import Unit, Units


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Units inside a graph of them and their neighbours; equal signatures have equal prices.

    Neighbours are there because the vendor's compiler keeps tensors between operators in the part's own memory, and
    converts what enters and leaves a graph: at its border a unit costs something else.
    """

    graph: Graph
    units: tuple[Unit, ...]
    signature: str


def neighbourhood(graph: Graph, group: Sequence[Unit], units: Units, runs: Callable[[Node], bool]) -> Neighbourhood:
    """Return those of some units whose nodes all run, with the units around them that run."""

    def able(unit: Unit) -> bool:
        return all(runs(graph.node(name)) for name in unit.nodes)

    chosen = tuple(unit for unit in group if able(unit))
    own = [graph.node(name) for unit in chosen for name in unit.nodes]
    before = [graph.producers[tensor] for node in own for tensor in read_tensors(node) if tensor in graph.producers]
    after = [user for node in own for tensor in node.outputs for user in graph.consumers.get(tensor, ())]
    around = {units.of_node[node.name].name for node in (*own, *before, *after)}
    members = {name for unit in units.items if unit.name in around and able(unit) for name in unit.nodes}
    piece = part_of_graph(graph, [node for node in graph.nodes if node.name in members])
    return Neighbourhood(piece, chosen, _signature(piece, {node.name for node in own}))


def _signature(piece: Graph, own: set[str]) -> str:
    """Return nodes, attributes, wiring, types and constants, with tensors by number.

    Weights go by their shapes, so that equal blocks, and a network that was trained again, are known.
    """
    number = {tensor: index for index, tensor in enumerate(piece.types)}
    lines = [f"{[number[name] for name in piece.inputs]} {[number[name] for name in piece.outputs]}"]
    for node in piece.nodes:
        wires = [[number.get(name, -1) for name in side] for side in (node.inputs, node.outputs)]
        attributes = sorted((name, repr(value)) for name, value in node.attributes.items())
        lines.append(f"{node.domain}:{node.op} {wires} {attributes} {node.name in own}")
    lines.extend(f"{kind.dtype.name} {kind.shape}" for kind in piece.types.values())
    lines.extend(
        f"{number[name]} {value.tolist()}"
        for name, value in piece.constants.items()
        if value.size == 1 or not piece.types[name].holds_reals
    )
    return "\n".join(lines)
