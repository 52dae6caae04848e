"""The tail of a graph: what made the entries of an output, followed back to the operators with weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.outputs.axes import Labels, before_reshape, before_transpose, own_axes

ACTIVATIONS = frozenset(
    {"Sigmoid", "HardSigmoid", "Softmax", "LogSoftmax", "Tanh", "Relu", "Clip", "Exp", "Softplus", "Elu", "LeakyRelu"}
)
_SHARES = frozenset({"Sigmoid", "HardSigmoid", "Softmax"})
MAKERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "If", "Loop", "Scan"})
"""Operators where the tail ends: those with weights, and control flow. Of an If the first branch is looked into."""

MEANS = frozenset({"ReduceMean", "GlobalAveragePool"})

_MOVES = frozenset({"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand"})
_RESIZES = frozenset({"Resize", "Upsample"})
_REAL = frozenset({"QuantizeLinear", "DequantizeLinear", "Requantize"})
_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Neg", "Log", "Max", "Min", "Floor", "Square"})
_MOST_STEPS = 4000


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where some entries of an output come from."""

    spans: Mapping[int, tuple[int, int]]
    """Start and stop on those axes of the output that a Concat has put together; other axes are whole."""
    maker: str
    """The operator that made the values."""
    tensor: str
    """What it made."""
    activation: str = ""
    """The activation nearest to the output."""
    softmax_axis: int | None = None
    """The axis of the output along which a Softmax went."""
    arithmetic: frozenset[str] = frozenset()
    """Arithmetic between the maker and the output."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What lies between an output and the operators with weights."""

    leaves: tuple[Leaf, ...]
    operators: frozenset[str]
    """All operators of the tail, the makers included, wherever values come from."""
    resized: bool = False
    """A Resize makes the output larger after the last operator with weights."""
    earlier: frozenset[str] = frozenset()
    """The operators with weights in front of those that made the output."""

    def segments(self, axis: int, size: int) -> tuple[tuple[int, int, tuple[Leaf, ...]], ...]:
        """Return (start, stop, leaves) of the stretches that a Concat has put together along an axis."""
        cuts = {0, size}
        for leaf in self.leaves:
            if axis in leaf.spans:
                cuts.update(leaf.spans[axis])
        edges = sorted(cuts)
        found: list[tuple[int, int, tuple[Leaf, ...]]] = []
        for start, stop in itertools.pairwise(edges):
            inside = tuple(leaf for leaf in self.leaves if _covers(leaf, axis, start, stop))
            found.append((start, stop, inside))
        return tuple(found)

    @property
    def activations(self) -> frozenset[str]:
        """Return the activations nearest to the output, the empty one included."""
        return frozenset(leaf.activation for leaf in self.leaves)


def _covers(leaf: Leaf, axis: int, start: int, stop: int) -> bool:
    low, high = leaf.spans.get(axis, (start, stop))
    return low <= start and stop <= high


@dataclass(frozen=True, slots=True)
class _Walk:
    """A tensor on the way back from an output, and what has been passed."""

    tensor: str
    labels: Labels
    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    activation: str = ""
    softmax_axis: int | None = None
    arithmetic: frozenset[str] = frozenset()

    def to(self, tensor: str, labels: Labels | None = None) -> _Walk:
        return replace(self, tensor=tensor, labels=self.labels if labels is None else labels)


def trace_tail(graph: Graph, output: str, shape: tuple[int, ...]) -> Tail:
    """Return the tail of an output of the given shape, its batch included."""
    shapes = _Shapes(graph, output, shape)
    leaves: list[Leaf] = []
    waiting = [_Walk(output, own_axes(len(shape)))]
    steps = 0
    while waiting and steps < _MOST_STEPS:
        steps += 1
        walk = waiting.pop()
        node = graph.producers.get(walk.tensor)
        onward = None if node is None else _onward(graph, shapes, node, walk)
        if onward is None:
            inside = _inside(node, walk) if node is not None and node.op == "If" else ()
            leaves.extend(inside or [_leaf(walk, "" if node is None else node.op)])
        else:
            waiting.extend(onward)
    distinct = tuple(_unique(leaves))
    earlier = frozenset(name for leaf in distinct for name in _earlier(graph, leaf.tensor))
    return Tail(distinct, _operators(graph, output), _resized(graph, output), earlier)


def _leaf(walk: _Walk, maker: str) -> Leaf:
    return Leaf(dict(walk.spans), maker, walk.tensor, walk.activation, walk.softmax_axis, walk.arithmetic)


def _inside(node: Node, walk: _Walk) -> list[Leaf]:
    """Return the leaves of the first branch of an If, as leaves of what the walk is at."""
    body = node.attributes.get("then_branch")
    if not isinstance(body, Graph):
        return []
    tail = trace_tail(body, body.outputs[node.outputs.index(walk.tensor)], (1,) * len(walk.labels))
    return [
        replace(leaf, spans=dict(walk.spans), activation=walk.activation or leaf.activation, softmax_axis=None)
        for leaf in tail.leaves
    ]


def _unique(leaves: list[Leaf]) -> Iterator[Leaf]:
    seen: set[tuple[object, ...]] = set()
    for leaf in leaves:
        key = (tuple(sorted(leaf.spans.items())), leaf.maker, leaf.tensor, leaf.activation, leaf.arithmetic)
        if key not in seen:
            seen.add(key)
            yield leaf


class _Shapes:
    """Shapes of tensors for one sample: a symbolic size is 1, and unknown where the rank is."""

    def __init__(self, graph: Graph, output: str, shape: tuple[int, ...]) -> None:
        self._graph, self._known = graph, {output: shape}
        self.end = shape

    def of(self, tensor: str) -> tuple[int, ...] | None:
        if tensor in self._known:
            return self._known[tensor]
        declared = self._graph.types[tensor].shape
        return None if declared is None else tuple(dim if isinstance(dim, int) else 1 for dim in declared)


def _onward(graph: Graph, shapes: _Shapes, node: Node, walk: _Walk) -> list[_Walk] | None:
    """Return the walks through a node's inputs, or None where the tail ends."""
    inputs = [name for name in node.inputs if name and name not in graph.constants]
    if node.op in MAKERS or not inputs:
        return None
    if node.op in _REAL or node.op in _RESIZES:
        return [walk.to(inputs[0])]
    if node.op in _MOVES:
        labels = _moved(shapes, node, walk.labels)
        return None if labels is None else [walk.to(inputs[0], labels)]
    if node.op == "Concat":
        return _joined(graph, shapes, node, walk)
    if node.op in ACTIVATIONS:
        return [_activated(node, walk)]
    if node.op in _ARITHMETIC:
        passed = replace(walk, arithmetic=walk.arithmetic | {node.op})
        return [passed.to(name, _aligned(shapes, name, walk)) for name in inputs]
    if node.op in MEANS:
        labels = _before_mean(graph, shapes, node, walk.labels)
        passed = replace(walk, arithmetic=walk.arithmetic | {node.op})
        return None if labels is None else [passed.to(inputs[0], labels)]
    if node.op in ("Split", "Slice"):
        return [walk.to(inputs[0])]
    return None


def _activated(node: Node, walk: _Walk) -> _Walk:
    onward = walk.to(node.inputs[0])
    # What keeps shares in 0..1 takes nothing from them: bytes whose zero is the least are dequantised to such a Relu.
    keeps = walk.activation in ("Relu", "Clip") and node.op in _SHARES
    if walk.activation and not keeps:
        return replace(onward, arithmetic=walk.arithmetic | {node.op})
    axis = None
    if node.op in ("Softmax", "LogSoftmax"):
        labels = walk.labels[node.integer("axis", -1) % len(walk.labels)]
        axis = next(iter(labels)) if len(labels) == 1 else None
    return replace(onward, activation=node.op, softmax_axis=axis)


def _moved(shapes: _Shapes, node: Node, labels: Labels) -> Labels | None:
    """Return the labels of the input of an operator that only moves values."""
    if node.op in ("Identity", "Cast"):
        return labels
    before, after = shapes.of(node.inputs[0]), shapes.of(node.outputs[0])
    if before is None or after is None:
        return None
    if node.op == "Transpose":
        return before_transpose(labels, node.integers("perm") or tuple(reversed(range(len(before)))))
    if node.op == "Expand":
        return tuple(labels[len(labels) - len(before) :]) if len(before) <= len(labels) else None
    return before_reshape(labels, before, after)


def _before_mean(graph: Graph, shapes: _Shapes, node: Node, labels: Labels) -> Labels | None:
    """Return the labels of the input of a mean: none for the axes that are gone."""
    before = shapes.of(node.inputs[0])
    if before is None:
        return None
    if len(before) == len(labels):
        return labels
    axes = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    gone = set(range(len(before))) if axes is None else {int(axis) % len(before) for axis in axes.reshape(-1)}
    kept = iter(labels)
    return tuple(frozenset[int]() if axis in gone else next(kept, frozenset[int]()) for axis in range(len(before)))


def _aligned(shapes: _Shapes, tensor: str, walk: _Walk) -> Labels:
    """Return the labels of an operand that broadcasts to what the walk is at."""
    shape = shapes.of(tensor)
    rank = len(walk.labels) if shape is None else len(shape)
    if rank >= len(walk.labels):
        return (frozenset[int](),) * (rank - len(walk.labels)) + walk.labels
    return walk.labels[len(walk.labels) - rank :]


def _joined(graph: Graph, shapes: _Shapes, node: Node, walk: _Walk) -> list[_Walk] | None:
    """Return a walk for each part of a Concat, with its span where one axis of the output is cut."""
    found = [shapes.of(name) for name in node.inputs]
    axis = node.integer("axis", 0) % len(walk.labels)
    if any(shape is None for shape in found):
        return None
    sizes = [shape[axis] for shape in found if shape is not None]
    labels = walk.labels[axis]
    target = next(iter(labels)) if len(labels) == 1 else None
    low, high = (0, 0) if target is None else walk.spans.get(target, (0, shapes.end[target]))
    parts: list[_Walk] = []
    start = low
    for name, size in zip(node.inputs, sizes, strict=True):
        if name not in graph.constants:
            # An axis that was merged with others, or cut before, has parts whose places cannot be told.
            exact = target is not None and high - low == sum(sizes)
            spans = {**walk.spans, target: (start, start + size)} if exact and target is not None else walk.spans
            parts.append(replace(walk.to(name), spans=spans))
        start += size
    return parts


def _operators(graph: Graph, output: str) -> frozenset[str]:
    """Return all operators between an output and the nearest operators with weights, those included."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [output]
    while waiting and len(seen) < _MOST_STEPS:
        node = graph.producers.get(waiting.pop())
        if node is None or node.name in seen:
            continue
        seen.add(node.name)
        found.add(node.op)
        if node.op not in MAKERS:
            waiting.extend(name for name in node.inputs if name)
    return frozenset(found)


def _earlier(graph: Graph, tensor: str) -> frozenset[str]:
    """Return the nearest operators with weights in front of the one that makes a tensor."""
    node = graph.producers.get(tensor)
    if node is None:
        return frozenset()
    found: set[str] = set()
    waiting = [name for name in node.inputs if name]
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_STEPS:
        tensor = waiting.pop()
        source = graph.producers.get(tensor)
        if source is None or tensor in seen:
            continue
        seen.add(tensor)
        if source.op in MAKERS:
            found.add(source.op)
        else:
            waiting.extend(name for name in source.inputs if name)
    return frozenset(found)


def _resized(graph: Graph, output: str) -> bool:
    """Tell whether a Resize stands between the last operator with weights and the output."""
    tensor = output
    for _ in range(16):
        node = graph.producers.get(tensor)
        if node is None or node.op in MAKERS:
            return False
        if node.op in _RESIZES:
            return True
        inputs = [name for name in node.inputs if name and name not in graph.constants]
        if not inputs:
            return False
        tensor = inputs[0]
    return False
