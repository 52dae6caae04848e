"""Run plans piece by piece: what a plan has in common with an earlier one is neither built nor computed again.

The graph is cut at the same places for every plan, where little is alive, so that a plan's outputs do not depend on
what was run before it. A piece is built once for all plans in which it comes out the same, and what crosses a cut is
kept: a plan that differs from an earlier one in the second half runs that half only.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dovetail.backend.protocols import Executable
from dovetail.data.batches import Batch
from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.graph import Graph, read_tensors
from dovetail.ir.macs import node_macs
from dovetail.ir.node import Node
from dovetail.partition.schedule import part_of_graph
from dovetail.plan.units import clamp_host

MOST_PIECES = 6
_NODES = 8
"""Nodes that a piece has on average at least."""

_LEEWAY = 0.35
"""Share of a piece by which a cut may move to where less is alive."""

_MACS_PER_ELEMENT = 16
_NODE_ELEMENTS = 2000
"""What takes about as long as an element that is read or written, and how many take as long as a node to start."""

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_FOLDED = frozenset({"Add", "Sum", "Sub", "Mul", "Div", "BatchNormalization"})

_STATE_BYTES = 1 << 29
_BUILT_BYTES = 1 << 28
"""Most bytes that are kept of what crosses cuts, and of the weights of pieces in float32."""

_NODE_BYTES = 4096
"""What a node takes in a session, weights aside."""

Values = Mapping[str, AnyArray]
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Hold some nodes of a quantised graph; `key` is the same for whatever computes the same."""

    key: _Key
    nodes: tuple[Node, ...]
    crossing: tuple[str, ...]
    """Tensors that were made by now and are read later, or are outputs of the graph."""


@dataclass(frozen=True, slots=True)
class Line:
    """Hold the pieces of one quantised graph; `states` number all that was computed up to the end of each."""

    graph: Graph
    pieces: tuple[_Piece, ...]
    states: tuple[int, ...]


_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class _Built:
    """Hold an executable and what it is to be given."""

    executable: Executable
    inputs: tuple[str, ...]


class _Shelf(Generic[_Thing]):
    """Keep things up to a number of bytes; what was not asked for longest goes first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._size_bytes = 0
        self._things: OrderedDict[object, tuple[_Thing, int]] = OrderedDict()

    def get(self, key: object) -> _Thing | None:
        if key not in self._things:
            return None
        self._things.move_to_end(key)
        return self._things[key][0]

    def put(self, key: object, thing: _Thing, size_bytes: int) -> None:
        self._things[key] = thing, size_bytes
        self._size_bytes += size_bytes
        while self._size_bytes > self._most_bytes and len(self._things) > 1:
            self._size_bytes -= self._things.popitem(last=False)[1][1]


class Pieces:
    """Run quantised versions of one graph, of which `load` builds the pieces. Not for two threads."""

    def __init__(self, graph: Graph, load: Callable[[Graph], Executable], most: int = MOST_PIECES) -> None:
        self._ends = cut_points(graph, min(most, len(graph.nodes) // _NODES))
        self._load = load
        self._constants: dict[int, AnyArray] = {}
        self._numbers: dict[tuple[int, _Key], int] = {}
        self._built = _Shelf[_Built](_BUILT_BYTES)
        self._states = _Shelf[list[Values]](_STATE_BYTES)

    def line_up(self, graph: Graph) -> Line:
        """Return the pieces of a quantised graph."""
        pieces = _pieces(graph, self._ends)
        # A key names constants by their identity, which another array could get once they are gone.
        self._constants.update((id(array), array) for array in graph.constants.values())
        states: list[int] = []
        state = 0
        for piece in pieces:
            state = self._numbers.setdefault((state, piece.key), len(self._numbers) + 1)
            states.append(state)
        return Line(graph, pieces, tuple(states))

    def run(self, line: Line, indices: Sequence[int], batches: Iterable[Batch]) -> list[Values]:
        """Return the outputs of every batch of the samples at these indices."""
        samples = tuple(indices)
        first, known = self._furthest(line, samples)
        rest = [(piece, self._executable(line, piece)) for piece in line.pieces[first:]]
        made: list[list[Values]] = [[] for _ in rest]
        for number, batch in enumerate(batches):
            crossing = known[number] if known else {}
            for (piece, built), into in zip(rest, made, strict=True):
                values = {**batch.inputs, **crossing}
                values |= built.executable.run({name: values[name] for name in built.inputs})
                crossing = {name: values[name] for name in piece.crossing}
                into.append(crossing)
        for state, found in zip(line.states[first:-1], made, strict=False):
            size = sum(array.nbytes for item in found for array in item.values())
            # What takes most of the room would push out all that is about to be used.
            if 8 * size <= _STATE_BYTES:
                self._states.put((state, samples), found, size)
        return made[-1]

    def _furthest(self, line: Line, samples: tuple[int, ...]) -> tuple[int, list[Values]]:
        """Return the first piece that has to be run, and what crosses the cut before it."""
        for number in reversed(range(len(line.pieces) - 1)):
            found = self._states.get((line.states[number], samples))
            if found is not None:
                return number + 1, found
        return 0, []

    def _executable(self, line: Line, piece: _Piece) -> _Built:
        found = self._built.get(piece.key)
        if found is None:
            part = line.graph if len(line.pieces) == 1 else part_of_graph(line.graph, piece.nodes)
            found = _Built(self._load(part), part.inputs)
            weights = sum(4 * array.size for array in part.constants.values())
            self._built.put(piece.key, found, weights + _NODE_BYTES * len(part.nodes))
        return found


def cut_points(graph: Graph, most: int) -> tuple[str, ...]:
    """Return the last node of each of at most `most` pieces that take about as long, cut where little is alive."""
    if most < 2 or any(name in graph.constants or name in graph.inputs for name in graph.outputs):
        return ()
    done = list(itertools.accumulate(_effort(graph, node) for node in graph.nodes))
    alive = _alive(graph)
    clamped, fused = _clamped(graph), _fused(graph)
    ends: list[int] = []
    for number in range(1, most):
        low, high = (done[-1] * (number + side * _LEEWAY) / most for side in (-1, 1))
        near = [at for at in range(len(done) - 1) if low <= done[at] <= high and at not in clamped]
        if near and (best := min(near, key=lambda at: (at in fused, alive[at]))) not in ends:
            ends.append(best)
    return tuple(graph.nodes[at].name for at in sorted(ends))


def _effort(graph: Graph, node: Node) -> float:
    """Return about how long a node takes, in elements that are read or written."""
    touched = sum(graph.element_counts[name] for name in (*node.inputs, *node.outputs) if name)
    return _NODE_ELEMENTS + touched + (node_macs(graph, node) or 0) / _MACS_PER_ELEMENT


def _last_use(nodes: Sequence[Node], outputs: Iterable[str]) -> dict[str, int]:
    """Return the position of the last node that reads a tensor; outputs are read after all."""
    found = {tensor: at for at, node in enumerate(nodes) for tensor in read_tensors(node)}
    return {**found, **dict.fromkeys(outputs, len(nodes))}


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
    made = {tensor: at for at, node in enumerate(graph.nodes) for tensor in node.outputs}
    found: set[int] = set()
    for at, node in enumerate(graph.nodes):
        if node.op not in _FOLDED or node.domain:
            continue
        reads = [name for name in node.inputs if name and name not in graph.constants and name in made]
        floats = [name for name in reads if graph.types[name].quant is None]
        products = {graph.nodes[made[name]].op for name in floats}
        if "Conv" in products or (len(reads) == 1 and not products.isdisjoint(_PRODUCTS)):
            found.update(range(min(made[name] for name in reads), at))
    return frozenset(found)


def _pieces(graph: Graph, ends: Sequence[str]) -> tuple[_Piece, ...]:
    """Cut a quantised graph; a conversion goes with what it is for."""
    last = _last_use(graph.nodes, graph.outputs)
    stops, found, fused = frozenset(ends), list[_Piece](), _fused(graph)
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
            found.append(_Piece(_key(graph, nodes, alive), tuple(nodes), tuple(alive)))
            nodes = []
    return tuple(found)


def _key(graph: Graph, nodes: Sequence[Node], alive: Mapping[str, None]) -> _Key:
    """Return what a piece computes: constants are the same arrays in all quantised versions of a graph."""
    words: list[object] = []
    names: dict[str, None] = {}
    for node in nodes:
        words += (node.name, node.op, node.inputs, node.outputs)
        names |= dict.fromkeys((*read_tensors(node), *node.outputs))
    for name in filter(None, names):
        constant = graph.constants.get(name)
        words.append(graph.types[name] if constant is None else id(constant))
        if constant is None and name in alive:
            words.append(name)
    return tuple(words)
