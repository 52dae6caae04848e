"""Place a graph that came quantised: every node as it is or restated, with the conversions that this needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dovetail.backend.registry import find_target
from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph, as_constant
from dovetail.ir.node import Node
from dovetail.ir.types import TensorType
from dovetail.passes.draft import Draft
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize.boundaries import WORLD, boundary_op, boundary_placement
from dovetail.quantize.dequantize import saturates_at_zero
from dovetail.quantize.restate import RestatedNode, stored_range

CONVERSIONS = frozenset({"QuantizeLinear", "DequantizeLinear", "Requantize"})
"""What stands between formats: it goes where its neighbours are."""


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """Where a node goes, and how it is stated there where that is not as in the graph."""

    placement: Placement
    restated: RestatedNode | None = None


def is_conversion(graph: Graph, node: Node) -> bool:
    """Tell whether a node only brings reals from one format to another."""
    return node.op in CONVERSIONS and all(graph.types[name].holds_reals for name in (*node.inputs[:1], *node.outputs))


def adapt(graph: Graph, nodes: Mapping[str, PlacedNode]) -> QuantizedGraph:
    """Return a quantised graph with its nodes placed and restated; `nodes` has all but the conversions.

    Conversions of the graph write the type that their readers want, where those agree. Inputs and outputs keep theirs.
    """
    draft = _AdaptedDraft(graph, nodes)
    for node in graph.nodes:
        draft.add(node)
    return draft.finish()


class _AdaptedDraft:
    """Collect nodes, types and conversions of an adapted graph."""

    def __init__(self, graph: Graph, nodes: Mapping[str, PlacedNode]) -> None:
        self._graph = graph
        self._placed = nodes
        self._draft = Draft.of(graph)
        self._draft.nodes = []
        self._names = frozenset(node.name for node in graph.nodes)
        self._placements: dict[str, Placement] = {}
        self._boundaries: list[str] = []
        # Every tensor in every type that a reader wants: its name in the new graph.
        self._versions = {name: {graph.types[name]: name} for name in (*graph.inputs, *graph.constants)}
        self._native = {name: _Native(name, WORLD) for name in graph.inputs}

    def add(self, node: Node) -> None:
        """Add a node with the conversions before it."""
        placed = self._placed.get(node.name)
        if placed is None:
            self._convert_again(node)
            return
        types = self._graph.types if placed.restated is None else placed.restated.types
        inputs = tuple(self._read(name, types[name], placed) if name else "" for name in node.inputs)
        for body in node.bodies():
            for name in body.captures:
                self._read(name, self._graph.types[name], placed)
        outputs = tuple(self._make(name, types[name], placed.placement) if name else "" for name in node.outputs)
        self._store(node, replace(node, inputs=inputs, outputs=outputs), placed.placement)

    def finish(self) -> QuantizedGraph:
        """Return the graph; its plan says where its nodes are."""
        for name in self._graph.outputs:
            self._version(name, self._graph.types[name], WORLD)
        made = self._draft.graph()
        overrides = {name: Override(place, "as the file asks") for name, place in self._placements.items()}
        return QuantizedGraph(made, Plan(made.digest, WORLD, overrides), self._placements, frozenset(self._boundaries))

    def _read(self, name: str, kind: TensorType, placed: PlacedNode) -> str:
        stored = None if placed.restated is None else placed.restated.constants.get(name)
        if stored is not None and stored.name != name:
            self._draft.types[stored.name] = stored.kind
            self._draft.constants[stored.name] = stored.value
            return stored.name
        return name if name in self._graph.constants else self._version(name, kind, placed.placement)

    def _make(self, name: str, kind: TensorType, placement: Placement) -> str:
        made = name if kind == self._graph.types[name] else self._renamed(name, kind)
        self._versions[name] = {kind: made}
        self._native[name] = _Native(made, placement)
        return made

    def _renamed(self, name: str, kind: TensorType) -> str:
        made = self._draft.fresh(f"{name}@{kind.dtype.value}")
        self._draft.types[made] = kind
        self._draft.origins[made] = self._graph.origin_of(name)
        return made

    def _version(self, name: str, kind: TensorType, consumer: Placement) -> str:
        """Return a tensor in a type, converted when nothing has yet."""
        known = self._versions[name].get(kind)
        if known is not None:
            return known
        native = self._native[name]
        made = name if kind == self._graph.types[name] else self._renamed(name, kind)
        op, domain = boundary_op(self._draft.types[native.name], kind)
        node = Node(
            self._draft.node_name(f"{op}({native.name}->{made})", self._names), op, (native.name,), (made,), {}, domain
        )
        self._boundaries.append(node.name)
        self._keep(node, boundary_placement(native.placement, consumer))
        self._versions[name][kind] = made
        return made

    def _convert_again(self, node: Node) -> None:
        """Add a conversion of the graph: from what its input is stored as, to what its readers want."""
        (source, *_), (tensor,) = node.inputs, node.outputs
        kind = self._wanted(tensor)
        native = self._native.get(source, _Native(source, WORLD))
        if kind == self._draft.types[native.name]:
            self._versions[tensor], self._native[tensor] = {kind: native.name}, native
            return
        place = boundary_placement(native.placement, self._reader(tensor))
        op, domain = boundary_op(self._draft.types[native.name], kind)
        made = self._make(tensor, kind, place)
        self._boundaries.append(node.name)
        self._store(node, replace(node, op=op, domain=domain, inputs=(native.name,), outputs=(made,)), place)

    def _wanted(self, tensor: str) -> TensorType:
        """Return the type that all readers of a tensor want, else its own."""
        own = self._graph.types[tensor]
        placed = [self._placed.get(node.name) for node in self._graph.consumers.get(tensor, ())]
        types = {own if item is None or item.restated is None else item.restated.types[tensor] for item in placed}
        return types.pop() if len(types) == 1 and tensor not in self._graph.outputs else own

    def _reader(self, tensor: str) -> Placement:
        """Return where a tensor is read: on the CPU where any reader is there, or where nothing but the world reads."""
        seen, waiting = [], [tensor]
        while waiting:
            name = waiting.pop()
            for node in self._graph.consumers.get(name, ()):
                placed = self._placed.get(node.name)
                if placed is not None:
                    seen.append(placed.placement)
                else:
                    waiting += node.outputs
        return next((item for item in seen if item.target == HOST), seen[0] if seen else WORLD)

    def _store(self, node: Node, made: Node, placement: Placement) -> None:
        """Add a node as it is stored now, with the clamp behind it that its zero point was and no longer is.

        Exporters drop a Relu, or a clip to 0..6, whose work storage does.
        """
        if not saturates_at_zero(self._graph, node):
            self._keep(made, placement)
            return
        (tensor,) = made.outputs
        kind = self._draft.types[tensor]
        if kind.quant is not None and kind.quant.zero_point[0] == kind.dtype.integer_range[0]:
            self._keep(made, placement)
            return
        raw = self._draft.fresh(f"{tensor}/unclamped")
        self._draft.types[raw] = kind
        self._keep(replace(made, outputs=(raw,)), placement)
        name = self._draft.node_name(f"{node.name}/clip", self._names)
        limits = stored_range(self._graph.types[node.outputs[0]])
        bounds = (self._scalar(f"{tensor}/low", limits.low), self._scalar(f"{tensor}/high", limits.high))
        self._keep(Node(name, "Clip", (raw, *bounds), (tensor,), origin=node.origin), placement)

    def _scalar(self, name: str, value: float) -> str:
        made = self._draft.fresh(name)
        self._draft.constants[made] = as_constant(value, np.float32)
        self._draft.types[made] = TensorType(DType.F32, ())
        return made

    def _keep(self, node: Node, placement: Placement) -> None:
        if node.op in CONVERSIONS and placement.target != HOST and not self._is_taken(node, placement):
            placement = WORLD
        self._draft.nodes.append(node)
        self._placements[node.name] = placement

    def _is_taken(self, node: Node, placement: Placement) -> bool:
        """Tell whether a target converts between these formats."""
        types = {name: self._draft.types[name] for name in (node.inputs[0], *node.outputs)}
        alone = Graph(node.name, (replace(node, inputs=node.inputs[:1]),), node.inputs[:1], node.outputs, types)
        return find_target(placement.target).verdict(alone, alone.nodes[0], placement.precision).supported


@dataclass(frozen=True, slots=True)
class _Native:
    """A tensor as its producer makes it."""

    name: str
    placement: Placement
