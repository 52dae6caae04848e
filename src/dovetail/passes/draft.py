"""A Graph under construction: what a pass changes in place before it makes the next immutable Graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dovetail.errors import PassError
from dovetail.ir import AnyArray, Graph, Node, TensorType, nodes_in_order, read_tensors


@dataclass(slots=True)
class Draft:
    """The parts of a Graph as mutable collections.

    `outer` gives the values of captured constants to the draft of a body.
    """

    name: str
    nodes: list[Node]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: dict[str, TensorType]
    constants: dict[str, AnyArray]
    captures: tuple[str, ...] = ()
    origins: dict[str, str] = field(default_factory=dict)
    outer: Mapping[str, AnyArray] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Draft:
        """Return a draft with the content of a graph."""
        return cls(
            name=graph.name,
            nodes=list(graph.nodes),
            inputs=graph.inputs,
            outputs=graph.outputs,
            types=dict(graph.types),
            constants=dict(graph.constants),
            captures=graph.captures,
            origins=dict(graph.origins),
        )

    def graph(self) -> Graph:
        """Return the verified Graph, nodes sorted and unused names dropped."""
        available = {*self.inputs, *self.captures, *self.constants}
        ordered = nodes_in_order(self.nodes, available)
        if ordered is None:
            raise PassError(f"graph '{self.name}' has become cyclic", pass_name="draft")
        used = {*self.inputs, *self.outputs, *self.captures}
        for node in ordered:
            used.update(read_tensors(node))
            used.update(name for name in node.outputs if name)
        return Graph(
            name=self.name,
            nodes=tuple(ordered),
            inputs=self.inputs,
            outputs=self.outputs,
            types={name: kind for name, kind in self.types.items() if name in used},
            constants={name: value for name, value in self.constants.items() if name in used},
            captures=self.captures,
            origins={name: origin for name, origin in self.origins.items() if name in used},
        )

    def value(self, tensor: str) -> AnyArray | None:
        """Return the value of a constant of this graph or of the graphs around it."""
        found = self.constants.get(tensor)
        return self.outer.get(tensor) if found is None else found

    def producers(self) -> dict[str, Node]:
        """Map every tensor that a node makes to that node."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def consumers(self) -> dict[str, list[Node]]:
        """Map a tensor to the nodes that read it, each once, bodies' captures included."""
        consumers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(read_tensors(node)):
                consumers.setdefault(name, []).append(node)
        return consumers

    def fresh(self, stem: str) -> str:
        """Return a tensor name that is not taken yet."""
        taken = self.types
        name, number = stem, 1
        while name in taken:
            name, number = f"{stem}.{number}", number + 1
        return name

    def node_name(self, stem: str, taken: Iterable[str] = ()) -> str:
        """Return a node name that is neither in the draft nor among `taken`."""
        used = {node.name for node in self.nodes} | set(taken)
        name, number = stem, 1
        while name in used:
            name, number = f"{stem}.{number}", number + 1
        return name


def merge_origin(node: Node, *absorbed: Node) -> Node:
    """Return the node with the origins of others added to its own."""
    if not absorbed:
        return node
    names = dict.fromkeys(name for item in (node, *absorbed) for name in item.origin)
    return replace(node, origin=tuple(names))
