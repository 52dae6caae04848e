"""Which nodes of a Graph an entry of a toolchain's file stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dovetail.errors import FormatError
from dovetail.ir.graph import Graph, read_tensors


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator as a toolchain lists it: `name` is its entry, tensors have the names of the source file."""

    name: str
    op_type: str
    ins: tuple[str, ...]
    outs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """The operators of a network in the toolchain's own words and order."""

    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """Nodes of which all have a word or none, whatever else they have, and why.

    With a `source` that holds only where this node has the word too.
    """

    word: str
    nodes: tuple[str, ...]
    reason: str
    source: str = ""


@dataclass(frozen=True)
class Binding:
    """Map every item of a toolchain to the nodes that it stands for; an item may stand for none."""

    nodes_of: Mapping[str, tuple[str, ...]]
    silent: frozenset[str] = field(default_factory=frozenset)
    """Names that the toolchain knows and that may be listed though no node stands for them."""
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Items that stand for no node and hand something on, with the nodes that read it: they keep as much as these."""
    lacks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Texts of words that the toolchain has not for an item, though for others."""
    together: tuple[Together, ...] = ()
    """Nodes of which the toolchain gives a word to all or to none."""
    doubts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Texts of words that the toolchain may not obey for an item: a file can say them, a nearest plan has none of them,
    and a search does not try them."""
    alike: tuple[tuple[str, ...], ...] = ()
    """Nodes that a search and a nearest plan place alike, for the toolchain may not obey what sets them apart."""

    @cached_property
    def covered(self) -> frozenset[str]:
        """Return the nodes that some item stands for."""
        return frozenset(name for nodes in self.nodes_of.values() for name in nodes)

    def require(self, item: str, *, path: str, line: int, code: str) -> None:
        """Raise FormatError with the nearest names when the toolchain has no such item."""
        if item in self.nodes_of or item in self.silent:
            return
        raise FormatError(
            f"'{item}' is no name of this network.", path=path, line=line, code=code, hint=self.suggest(item)
        )

    def suggest(self, item: str) -> str:
        """Return the names nearest to one that is not there."""
        return suggest(item, self.nodes_of)


def suggest(item: str, names: Iterable[str]) -> str:
    """Return the names nearest to one that is not there."""
    near = difflib.get_close_matches(item, list(names), n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(repr(name) for name in near)}?" if near else "Is it the right model?"


def bind_sources(graph: Graph) -> Binding:
    """Bind by the names of the source file's nodes: each stands for the node that it became part of."""
    nodes_of: dict[str, list[str]] = {}
    for node in graph.nodes:
        for origin in node.origin:
            nodes_of.setdefault(origin, []).append(node.name)
    return Binding({item: tuple(nodes) for item, nodes in nodes_of.items()})


def bind_tensors(graph: Graph) -> Binding:
    """Bind by the source names of the tensors that nodes make: a node that only lays one out anew is with its maker."""
    nodes_of: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        for source in {graph.origin_of(tensor): None for tensor in node.outputs if tensor}:
            nodes_of[source] = (*nodes_of.get(source, ()), node.name)
    return Binding(nodes_of)


def bind_operations(graph: Graph, operations: Sequence[Operation]) -> Binding:
    """Bind the operators of another toolchain by tensors that both know.

    An operator stands for the nodes between the tensors it makes and the nearest tensors that the listing also knows.
    Where a tensor is gone from the graph (a batch normalisation folded into a convolution), the operator that made it
    goes with the one that reads it.
    """
    by_source: dict[str, list[str]] = {}
    for tensor in graph.types:
        # Several where a tensor of the source is laid out in several ways.
        by_source.setdefault(graph.origin_of(tensor), []).append(tensor)
    listed = {name for op in operations for name in op.outs}
    stops = {tensor for source in by_source.keys() & listed for tensor in by_source[source]}
    nodes_of: dict[str, tuple[str, ...]] = {}
    for op in operations:
        # An operator that only renames or passes on its input (a name both read and made) makes no tensor of its own.
        made = [tensor for name in op.outs if name not in op.ins for tensor in by_source.get(name, ())]
        nodes_of[op.name] = _region(graph, [tensor for tensor in made if tensor in graph.producers], stops)
    _lend(operations, nodes_of)
    return Binding(nodes_of)


def _region(graph: Graph, ends: Iterable[str], stops: set[str]) -> tuple[str, ...]:
    region: set[str] = set()
    waiting = list(ends)
    while waiting:
        node = graph.producers.get(waiting.pop())
        if node is None or node.name in region:
            continue
        region.add(node.name)
        waiting += [tensor for tensor in read_tensors(node) if tensor not in stops]
    return tuple(node.name for node in graph.nodes if node.name in region) if len(region) > 1 else tuple(region)


def _lend(operations: Sequence[Operation], nodes_of: dict[str, tuple[str, ...]]) -> None:
    """Give operators without nodes those of what reads what they make, where all readers stand for the same."""
    readers: dict[str, list[Operation]] = {}
    for op in operations:
        for name in op.ins:
            readers.setdefault(name, []).append(op)
    for op in reversed(operations):
        if not nodes_of[op.name] and op.ins:
            users = {nodes_of[user.name] for name in op.outs for user in readers.get(name, ()) if user is not op}
            if len(users) == 1:
                nodes_of[op.name] = users.pop()
