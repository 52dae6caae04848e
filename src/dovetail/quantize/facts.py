"""What the quantiser asks of every node of a source graph, whatever the plan: found once, for thousands of plans."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import Role, WeightLayout, input_roles, is_pass_through, weight_layout
from dovetail.plan.units import clamp_host


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of one node.

    `computes_reals` tells whether the node's number format matters: it has real outputs and no body of its own.
    `host` applies this node, a clamp; `clamps` are those that this node may apply, by output.
    """

    captured: tuple[str, ...]
    computes_reals: bool
    roles: tuple[Role, ...]
    layout: WeightLayout | None
    passes_through: bool
    host: Node | None
    clamps: tuple[tuple[Node, ...], ...]


def facts_of(graph: Graph, node: Node) -> NodeFacts:
    """Return what is known of a node of a graph."""
    bodies = node.bodies()
    reals = any(tensor and graph.types[tensor].holds_reals for tensor in node.outputs)
    return NodeFacts(
        captured=tuple(tensor for body in bodies for tensor in body.captures),
        computes_reals=reals and not bodies,
        roles=input_roles(graph, node),
        layout=weight_layout(graph, node),
        passes_through=is_pass_through(graph, node),
        host=clamp_host(graph, node),
        clamps=tuple(
            tuple(reader for reader in graph.consumers.get(tensor, ()) if clamp_host(graph, reader) is node)
            for tensor in node.outputs
        ),
    )
