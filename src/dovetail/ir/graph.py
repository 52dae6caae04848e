"""The Graph: an immutable, verified network in ONNX operator semantics."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from dovetail.ir.digest import digest_graph
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.node import Body, Node
from dovetail.ir.types import TensorType
from dovetail.ir.verify import verify_graph

OPSET = 21
"""The one ONNX opset inside: the first with 16-bit QuantizeLinear, and old enough for the runtimes in the field."""


@dataclass(frozen=True, eq=False)
class Graph(Body):
    """Nodes in topological order and the type of every tensor; verified on construction.

    `captures` are the tensors that a control-flow body reads from the graph around it.
    `origins` maps a tensor to its name in the source file where a pass has renamed it.
    Raises GraphError when an invariant is broken.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, AnyArray] = field(default_factory=dict)
    captures: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for array in self.constants.values():
            array.setflags(write=False)
        for name in ("types", "constants", "origins"):
            value = getattr(self, name)
            if not isinstance(value, MappingProxyType):
                object.__setattr__(self, name, MappingProxyType(dict(value)))
        verify_graph(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from dovetail.ir.markup import facts_html, table_html

        counts = Counter(node.op for node in self.nodes)
        facts = {
            "nodes": str(len(self.nodes)),
            "inputs": ", ".join(f"{name} {_shape_text(self.types[name])}" for name in self.inputs),
            "outputs": ", ".join(f"{name} {_shape_text(self.types[name])}" for name in self.outputs),
            "digest": self.digest[:12],
        }
        rows = [(kind, str(count)) for kind, count in counts.most_common()]
        return facts_html(f"Graph '{self.name}'", facts.items()) + table_html(("operator", "nodes"), rows)

    def origin_of(self, tensor: str) -> str:
        """Return the name of a tensor in the source file."""
        return self.origins.get(tensor, tensor)

    def node(self, name: str) -> Node:
        """Return the node of that name; raise KeyError when there is none."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """Map every tensor that a node makes to that node."""
        return {tensor: node for node in self.nodes for tensor in node.outputs if tensor}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """Map a tensor to the nodes that read it, each once, bodies' captures included."""
        consumers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for tensor in dict.fromkeys(read_tensors(node)):
                consumers.setdefault(tensor, []).append(node)
        return {tensor: tuple(nodes) for tensor, nodes in consumers.items()}

    @cached_property
    def element_counts(self) -> Mapping[str, int]:
        """Map every tensor to its elements for one sample; sizes that are symbolic or unknown count as 1."""
        return {
            name: math.prod([dim if isinstance(dim, int) else 1 for dim in kind.shape]) if kind.shape else 1
            for name, kind in self.types.items()
        }

    @cached_property
    def digest(self) -> str:
        """Return a SHA-256 over names, structure, types and constants."""
        return digest_graph(self)

    def constant(self, tensor: str) -> AnyArray | None:
        """Return the value of a constant, or None when the tensor is computed or omitted."""
        return self.constants.get(tensor)

    def evolve(self, **changes: object) -> Graph:
        """Return a copy with some fields replaced, verified again."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self.nodes)} nodes, {len(self.constants)} constants>"


def read_tensors(node: Node) -> tuple[str, ...]:
    """Return every tensor that a node reads: its inputs and what its bodies capture."""
    names = [tensor for tensor in node.inputs if tensor]
    for body in node.bodies():
        names.extend(body.captures)
    return tuple(names)


def prune(graph: Graph) -> Graph:
    """Return the graph without the constants, types and origins that nothing uses."""
    used = set(graph.inputs) | set(graph.outputs) | set(graph.captures)
    for node in graph.nodes:
        used.update(read_tensors(node))
        used.update(tensor for tensor in node.outputs if tensor)
    return graph.evolve(
        types={name: kind for name, kind in graph.types.items() if name in used},
        constants={name: value for name, value in graph.constants.items() if name in used},
        origins={name: origin for name, origin in graph.origins.items() if name in used},
    )


def nodes_in_order(nodes: list[Node], available: set[str]) -> list[Node] | None:
    """Sort nodes topologically, keeping their order where they allow it; None when they form a cycle."""
    waiting: dict[str, list[int]] = {}
    missing: list[int] = []
    ready: list[int] = []
    produced = {tensor for node in nodes for tensor in node.outputs if tensor}
    for index, node in enumerate(nodes):
        needs = {tensor for tensor in read_tensors(node) if tensor in produced and tensor not in available}
        missing.append(len(needs))
        for tensor in needs:
            waiting.setdefault(tensor, []).append(index)
        if not needs:
            ready.append(index)
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(nodes[index])
        for tensor in nodes[index].outputs:
            for follower in waiting.pop(tensor, ()):
                missing[follower] -= 1
                if missing[follower] == 0:
                    heapq.heappush(ready, follower)
    return ordered if len(ordered) == len(nodes) else None


def as_constant(value: object, dtype: np.dtype[np.generic] | type[np.generic]) -> AnyArray:
    """Return a read-only array of the given numpy type."""
    array: AnyArray = np.array(value, dtype=dtype)
    array.setflags(write=False)
    return array


def _shape_text(kind: TensorType) -> str:
    shape = "[?]" if kind.shape is None else str(list(kind.shape)).replace("'", "")
    return f"{kind.dtype.value}{shape}"
