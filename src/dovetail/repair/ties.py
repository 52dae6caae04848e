"""Which channels have to be scaled together: those that an operator passes on, adds up or joins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.quantize.statistics import MOST_CHANNELS
from dovetail.repair.weights import WeightView, weight_view


@dataclass(frozen=True)
class Clamp:
    """A node that clips a tensor to limits, of which the lower is not above 0 and the upper not below it."""

    tensor: str
    """What it makes."""
    low: float
    high: float


@dataclass(frozen=True)
class Ties:
    """The channels of a graph in classes; the channels of one class have one scale."""

    first: Mapping[str, int]
    """The number of the first channel of every tensor that has channels (axis 1)."""
    counts: Mapping[str, int]
    classes: AnyArray
    """The class of every channel `[channels]`."""
    components: AnyArray
    """The component of every class `[classes]`: classes whose channels are in the same tensors."""
    pinned: AnyArray
    """Tell of every class whether its scale has to stay `[classes]`."""
    clamps: tuple[Clamp, ...]
    views: tuple[WeightView, ...]

    def of(self, tensor: str) -> AnyArray:
        """Return the class of every channel of a tensor."""
        start = self.first[tensor]
        part: AnyArray = self.classes[start : start + self.counts[tensor]]
        return part

    @cached_property
    def count(self) -> int:
        """Return the number of classes."""
        return len(self.pinned)


_SAME = frozenset(
    {
        "Relu",
        "LeakyRelu",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Identity",
        "Dropout",
        "Resize",
        "Upsample",
        "Tile",
        "Expand",
        "Slice",
        "ReduceMean",
        "ReduceMax",
        "ReduceSum",
    }
)
"""Operators that scale with their input, channel by channel, where the number of channels stays."""

SATURATED = frozenset({"Sigmoid", "HardSigmoid", "Softmax", "Tanh"})
"""Operators whose output nobody scales: a product with it scales with the other factor."""


@dataclass(slots=True)
class _Builder:
    """Collect which channels go together."""

    graph: Graph
    first: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    pairs: list[tuple[AnyArray, AnyArray]] = field(default_factory=list)
    pins: list[AnyArray] = field(default_factory=list)
    clamps: list[Clamp] = field(default_factory=list)
    views: list[WeightView] = field(default_factory=list)

    def channels(self, tensor: str) -> AnyArray:
        """Return the numbers of a tensor's channels; none where it has no known ones."""
        start = self.first.get(tensor, 0)
        return np.arange(start, start + self.counts.get(tensor, 0))

    def tie(self, one: AnyArray, other: AnyArray) -> None:
        """Let channels have the scales of others."""
        self.pairs.append((one, other))

    def pin(self, *tensors: str) -> None:
        """Let tensors keep their scales."""
        self.pins += [self.channels(tensor) for tensor in tensors if tensor in self.first]


def find_ties(graph: Graph) -> Ties:
    """Return the classes of channels of a graph."""
    build = _Builder(graph)
    total = 0
    for name in (*graph.inputs, *(name for node in graph.nodes for name in node.outputs if name)):
        shape = graph.types[name].shape
        if shape is not None and len(shape) >= 2 and isinstance(shape[1], int) and graph.types[name].dtype.is_float:
            build.first[name], build.counts[name] = total, shape[1]
            total += shape[1]
            if not 1 < shape[1] <= MOST_CHANNELS:
                build.pin(name)  # Nobody measured its channels.
    build.pin(*graph.inputs, *graph.outputs)
    for node in graph.nodes:
        if not _tie_node(build, node):
            bodies = (name for body in node.bodies() for name in body.captures)
            build.pin(*node.inputs, *node.outputs, *bodies)
    return _joined(build, total)


def _joined(build: _Builder, total: int) -> Ties:
    one = np.concatenate([pair[0] for pair in build.pairs]) if build.pairs else np.zeros(0, np.int64)
    other = np.concatenate([pair[1] for pair in build.pairs]) if build.pairs else np.zeros(0, np.int64)
    count, classes = _components(one, other, total)
    pinned = np.zeros(count, bool)
    for channels in build.pins:
        pinned[classes[channels]] = True
    starts = {tensor: build.channels(tensor) for tensor in build.first}
    held = [classes[numbers] for numbers in starts.values() if len(numbers) > 1]
    ones = np.concatenate([item[:-1] for item in held]) if held else np.zeros(0, np.int64)
    others = np.concatenate([item[1:] for item in held]) if held else np.zeros(0, np.int64)
    _, components = _components(ones, others, count)
    return Ties(build.first, build.counts, classes, components, pinned, tuple(build.clamps), tuple(build.views))


def _components(one: AnyArray, other: AnyArray, total: int) -> tuple[int, AnyArray]:
    if total == 0:
        return 0, np.zeros(0, np.int64)
    links = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(total, total))
    count, labels = connected_components(links, directed=False)
    return int(count), labels


def _tie_node(build: _Builder, node: Node) -> bool:
    """Tie the channels around a node; False where its tensors have to keep their scales."""
    if node.domain or node.bodies() or len(node.outputs) < 1:
        return False
    view = weight_view(build.graph, node)
    if view is not None:
        known = build.counts.get(node.inputs[0]) == view.inputs and build.counts.get(node.outputs[0]) == view.outputs
        if known:
            build.views.append(view)
        return known
    rule = _RULES.get(node.op)
    if rule is None and node.op in _SAME:
        rule = _same
    return rule is not None and rule(build, node)


def _same(build: _Builder, node: Node) -> bool:
    graph = build.graph
    source, made = build.channels(node.inputs[0]), build.channels(node.outputs[0])
    chooses = node.op == "Slice" or node.op.startswith("Reduce") or bool(node.integers("axes"))
    moved = graph.types[node.inputs[0]].rank != graph.types[node.outputs[0]].rank and not chooses
    if any(node.outputs[1:]) or moved or len(source) == 0 or len(source) != len(made):
        return False
    if chooses and not keeps_channels(graph, node):
        return False
    build.tie(source, made)
    return True


def keeps_channels(graph: Graph, node: Node) -> bool:
    """Tell whether a Slice or a reduction leaves the channels alone."""
    index = 3 if node.op == "Slice" else 1
    given = graph.constants.get(node.inputs[index]) if len(node.inputs) > index and node.inputs[index] else None
    axes = node.integers("axes") or (() if given is None else tuple(int(axis) for axis in given.reshape(-1)))
    rank, after = graph.types[node.inputs[0]].rank, graph.types[node.outputs[0]].rank
    if rank is None or not axes or (node.op != "Slice" and after != rank and min(axis % rank for axis in axes) < 2):
        return False
    return all(axis % rank != 1 for axis in axes)


def _clip(build: _Builder, node: Node) -> bool:
    limits = [_scalar(build.graph, node, index) for index in (1, 2)]
    if any(limit is None for limit in limits):
        return False
    low, high = (float(limit) for limit in limits if limit is not None)
    if not low <= 0 <= high or not _same(build, node):
        return False
    build.clamps.append(Clamp(node.outputs[0], low, high))
    return True


def _scalar(graph: Graph, node: Node, index: int) -> float | None:
    name = node.inputs[index] if len(node.inputs) > index else ""
    if not name:
        return -math.inf if index == 1 else math.inf
    value = graph.constants.get(name)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def _prelu(build: _Builder, node: Node) -> bool:
    return node.inputs[1] in build.graph.constants and _same(build, node)


def _pad(build: _Builder, node: Node) -> bool:
    value = build.graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    zero = len(node.inputs) < 3 or not node.inputs[2] or (value is not None and not value.any())
    constant = node.text("mode", "constant") == "constant"
    return ((zero or not constant) and _same(build, node)) or (zero and constant and _pad_channels(build, node))


def _pad_channels(build: _Builder, node: Node) -> bool:
    """Tie the channels that are there before others, which are zero, are put beside them."""
    pads = build.graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    rank = build.graph.types[node.inputs[0]].rank
    source, made = build.channels(node.inputs[0]), build.channels(node.outputs[0])
    if pads is None or rank is None or pads.size != 2 * rank or any(node.inputs[3:]):
        return False
    before, after = int(pads[1]), int(pads[rank + 1])
    if min(before, after) < 0 or len(source) == 0 or len(source) + before + after != len(made):
        return False
    build.tie(source, made[before : before + len(source)])
    return True


def _add(build: _Builder, node: Node) -> bool:
    shapes = {build.graph.types[name].shape for name in (*node.inputs, *node.outputs)}
    if len(shapes) != 1 or any(name not in build.first for name in node.inputs):
        return False
    for name in node.inputs:
        build.tie(build.channels(name), build.channels(node.outputs[0]))
    return True


def _multiply(build: _Builder, node: Node) -> bool:
    graph = build.graph
    for data, factor in (node.inputs, node.inputs[::-1]):
        producer = graph.producers.get(factor)
        steady = factor in graph.constants or (producer is not None and producer.op in SATURATED)
        ranks = {graph.types[name].rank for name in (data, node.outputs[0])}
        source, made = build.channels(data), build.channels(node.outputs[0])
        if steady and len(ranks) == 1 and len(source) > 0 and len(source) == len(made):
            build.pin(factor)
            build.tie(source, made)
            return True
    return False


def _divide(build: _Builder, node: Node) -> bool:
    return node.inputs[1] in build.graph.constants and _same(build, node)


def _concat(build: _Builder, node: Node) -> bool:
    return _parts(build, node, node.inputs, node.outputs[0])


def _split(build: _Builder, node: Node) -> bool:
    return _parts(build, node, node.outputs, node.inputs[0])


def _parts(build: _Builder, node: Node, parts: tuple[str, ...], whole: str) -> bool:
    rank = build.graph.types[whole].rank
    if rank is None or any(name not in build.first for name in (*parts, whole)):
        return False
    if node.integer("axis", 0) % rank != 1:
        if any(build.counts[name] != build.counts[whole] for name in parts):
            return False
        for name in parts:
            build.tie(build.channels(name), build.channels(whole))
        return node.integer("axis", 0) % rank > 1
    if sum(build.counts[name] for name in parts) != build.counts[whole]:
        return False
    build.tie(np.concatenate([build.channels(name) for name in parts]), build.channels(whole))
    return True


def _reshape(build: _Builder, node: Node) -> bool:
    """Tie where channels stay axis 1 and only what is behind them moves, or where all of that becomes one axis."""
    source, made = (build.graph.types[name].shape for name in (node.inputs[0], node.outputs[0]))
    if source is None or made is None or len(source) < 2 or len(made) < 2:
        return False
    inner = [size for size in source[1:] if isinstance(size, int)]
    after = [size for size in made[1:] if isinstance(size, int)]
    whole = len(inner) == len(source) - 1 and len(after) == len(made) - 1 and math.prod(inner) == math.prod(after)
    numbers, results = build.channels(node.inputs[0]), build.channels(node.outputs[0])
    if not whole or len(numbers) == 0 or len(results) == 0 or len(results) % len(numbers):
        return False
    if source[0] != made[0] and not (isinstance(source[0], str) or isinstance(made[0], str)):
        return False
    build.tie(np.repeat(numbers, len(results) // len(numbers)), results)
    return True


_RULES: dict[str, Callable[[_Builder, Node], bool]] = {
    "Add": _add,
    "Clip": _clip,
    "Concat": _concat,
    "Div": _divide,
    "Flatten": _reshape,
    "Mul": _multiply,
    "PRelu": _prelu,
    "Pad": _pad,
    "Reshape": _reshape,
    "Split": _split,
    "Squeeze": _reshape,
    "Sub": _add,
    "Unsqueeze": _reshape,
}
