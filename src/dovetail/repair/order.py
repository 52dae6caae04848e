"""Another order of channels: which tensors have to follow it, and which weights and constants take it up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.passes.draft import Draft
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.statistics import ChannelPower, Statistics
from dovetail.repair.ties import keeps_channels
from dovetail.repair.weights import WeightView, put_constant, store_weights, weight_view


@dataclass(frozen=True, slots=True)
class ChannelStretch:
    """Channels (axis 1) of a tensor that lie together, all in the new order; how many is the same everywhere."""

    tensor: str
    first: int


@dataclass(frozen=True, slots=True)
class Reordering:
    """What changes with the order of some channels; the float function stays."""

    stretches: frozenset[ChannelStretch]
    rows: frozenset[tuple[str, int]]
    """Weighted nodes whose output channels move, with the first of them."""
    columns: frozenset[tuple[str, int]]
    """Weighted nodes whose input channels move."""
    constants: frozenset[tuple[str, int, int, int]]
    """Constants by channel: node, input, axis and first index."""

    def apply(self, graph: Graph, order: AnyArray) -> Graph:
        """Return the graph with another order of channels: where channel `i` was, there is channel `order[i]`."""
        draft = Draft.of(graph)
        for node in graph.nodes:
            rows = [first for name, first in self.rows if name == node.name]
            columns = [first for name, first in self.columns if name == node.name]
            view = weight_view(graph, node) if rows or columns else None
            if view is not None:
                store_weights(draft, _moved_weights(view, rows, columns, order))
        for name, index, axis, first in sorted(self.constants):
            _move_constant(draft, name, index, _Along(axis, first, order))
        return draft.graph()

    def carry(self, calibration: Calibration, order: AnyArray) -> Calibration:
        """Return what calibration would find of the graph, but for its digest."""
        means, tensors = dict(calibration.ranges.means), dict(calibration.statistics.tensors)
        for stretch in self.stretches:
            if stretch.tensor in means:
                mean = np.asarray(means[stretch.tensor])
                means[stretch.tensor] = tuple(_taken(mean, stretch.first, order).tolist())
            powers = tensors.get(stretch.tensor, ())
            tensors[stretch.tensor] = tuple(_moved_power(item, stretch.first, order) for item in powers)
        ranges = replace(calibration.ranges, means=means)
        return replace(calibration, ranges=ranges, statistics=Statistics(tensors))


def find_reordering(graph: Graph, tensor: str) -> Reordering | None:
    """Return what follows the order of a tensor's channels; None where something outside depends on it."""
    shape = graph.types[tensor].shape
    if shape is None or len(shape) < 2 or not isinstance(shape[1], int) or shape[1] < 2:
        return None
    walk = _Walk(graph, shape[1])
    walk.reach(tensor, 0)
    while walk.waiting:
        if not walk.follow(walk.waiting.pop()):
            return None
    return Reordering(
        frozenset(walk.stretches), frozenset(walk.rows), frozenset(walk.columns), frozenset(walk.constants)
    )


@dataclass(slots=True)
class _Walk:
    """Collect what follows an order."""

    graph: Graph
    count: int
    stretches: set[ChannelStretch] = field(default_factory=set)
    waiting: list[ChannelStretch] = field(default_factory=list)
    rows: set[tuple[str, int]] = field(default_factory=set)
    columns: set[tuple[str, int]] = field(default_factory=set)
    constants: set[tuple[str, int, int, int]] = field(default_factory=set)

    def reach(self, tensor: str, first: int) -> None:
        """Let channels of a tensor follow."""
        stretch = ChannelStretch(tensor, first)
        if stretch not in self.stretches:
            self.stretches.add(stretch)
            self.waiting.append(stretch)

    def follow(self, stretch: ChannelStretch) -> bool:
        """Take what makes and what reads a tensor; False where its order has to stay."""
        graph, tensor = self.graph, stretch.tensor
        starts = (other.first for other in self.stretches if other.tensor == tensor)
        if any(0 < abs(first - stretch.first) < self.count for first in starts):
            return False
        producer = graph.producers.get(tensor)
        if producer is None or tensor in graph.outputs:
            return False
        return all(self._pass(node, stretch) for node in (producer, *graph.consumers.get(tensor, ())))

    def _pass(self, node: Node, stretch: ChannelStretch) -> bool:
        if node.domain or node.bodies() or any(node.outputs[1:]) != (node.op == "Split"):
            return False
        view = weight_view(self.graph, node)
        if view is not None:
            return self._weigh(view, stretch)
        rule = _RULES.get(node.op)
        return rule is not None and rule(self, node, stretch)

    def _weigh(self, view: WeightView, stretch: ChannelStretch) -> bool:
        node, made = view.node, view.node.outputs[0] == stretch.tensor
        if not made and (node.inputs[0] != stretch.tensor or node.inputs.count(stretch.tensor) > 1):
            return False
        if is_depthwise(view):
            self.rows.add((node.name, stretch.first))
            self.reach(node.inputs[0], stretch.first)
            self.reach(node.outputs[0], stretch.first)
            return True
        (self.rows if made else self.columns).add((node.name, stretch.first))
        return len(view.values) == 1


def is_depthwise(view: WeightView) -> bool:
    """Tell whether a node makes each channel of one channel."""
    return len(view.values) > 1 and view.values.shape[1:3] == (1, 1)


def _elementwise(walk: _Walk, node: Node, stretch: ChannelStretch) -> bool:
    """Follow through operators on elements, where operands are broadcast."""
    kinds, made = walk.graph.types, node.outputs[0]
    rank, shape = kinds[made].rank, kinds[made].shape
    if rank is None or shape is None:
        return False
    for index, name in enumerate(node.inputs):
        sizes = kinds[name].shape if name else ()
        if sizes is None:
            return False
        axis = 1 - rank + len(sizes)
        if axis < 0 or sizes[axis] == 1:
            if name == stretch.tensor:
                return False  # Its channels are another axis of what it is broadcast to.
            continue
        if sizes[axis] != shape[1] or (axis != 1 and name not in walk.graph.constants):
            return False
        if name in walk.graph.constants:
            walk.constants.add((node.name, index, axis, stretch.first))
        else:
            walk.reach(name, stretch.first)
    walk.reach(made, stretch.first)
    return True


def _spatial(walk: _Walk, node: Node, stretch: ChannelStretch) -> bool:
    """Follow through operators that work on each channel by itself."""
    graph, data, made = walk.graph, node.inputs[0], node.outputs[0]
    shapes = graph.types[data].shape, graph.types[made].shape
    if stretch.tensor not in (data, made) or any(shape is None or len(shape) < 2 for shape in shapes):
        return False
    if (node.op == "Slice" or node.op.startswith("Reduce")) and not keeps_channels(graph, node):
        return False
    if node.op == "Pad" and not _pads_no_channel(graph, node):
        return False
    before, after = (shape[1] for shape in shapes if shape is not None)
    walk.reach(data, stretch.first)
    walk.reach(made, stretch.first)
    return before == after


def _pads_no_channel(graph: Graph, node: Node) -> bool:
    pads = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    rank = graph.types[node.inputs[0]].rank
    if pads is None or rank is None or pads.size != 2 * rank or any(node.inputs[3:]):
        return False
    return not pads[1] and not pads[rank + 1]


def _reshape(walk: _Walk, node: Node, stretch: ChannelStretch) -> bool:
    """Follow where every channel is one element before and after."""
    data, made = node.inputs[0], node.outputs[0]
    for name in (data, made):
        shape = walk.graph.types[name].shape
        if shape is None or len(shape) < 2 or shape[1] != walk.count or any(size != 1 for size in shape[2:]):
            return False
    walk.reach(data, stretch.first)
    walk.reach(made, stretch.first)
    return True


def _concat(walk: _Walk, node: Node, stretch: ChannelStretch) -> bool:
    return _parts(walk, node, stretch, node.inputs, node.outputs[0])


def _split(walk: _Walk, node: Node, stretch: ChannelStretch) -> bool:
    return _parts(walk, node, stretch, node.outputs, node.inputs[0])


def _parts(walk: _Walk, node: Node, stretch: ChannelStretch, parts: tuple[str, ...], whole: str) -> bool:
    """Follow where channels are joined or parted, as long as all that follow stay together."""
    sizes = [(walk.graph.types[name].shape or (0, 0))[1] for name in parts]
    rank = walk.graph.types[whole].rank
    if rank is None or node.integer("axis", 0) % rank != 1 or any(name in walk.graph.constants for name in parts):
        return False
    first, inside = 0, stretch.tensor != whole
    for name, size in zip(parts, sizes, strict=True):
        if not isinstance(size, int):
            return False
        if name == stretch.tensor:
            walk.reach(whole, first + stretch.first)
        if stretch.tensor == whole and first <= stretch.first and stretch.first + walk.count <= first + size:
            walk.reach(name, stretch.first - first)
            inside = True
        first += size
    return inside


@dataclass(frozen=True, slots=True)
class _Along:
    """An order of indices of one axis from the first on."""

    axis: int
    first: int
    order: AnyArray


def _taken(value: AnyArray, first: int, order: AnyArray, axis: int = 0) -> AnyArray:
    """Return an array with indices of one axis in another order."""
    indices = np.arange(value.shape[axis])
    indices[first : first + len(order)] = first + order
    moved: AnyArray = np.take(value, indices, axis)
    return moved


def _moved_weights(view: WeightView, rows: list[int], columns: list[int], order: AnyArray) -> WeightView:
    values, bias = view.values, view.bias
    axis = 0 if is_depthwise(view) else 1
    for first in rows:
        values = _taken(values, first, order, axis)
        bias = None if bias is None else _taken(bias, first, order)
    for first in columns:
        values = _taken(values, first, order, 2)
    return replace(view, values=values, bias=bias)


def _move_constant(draft: Draft, name: str, index: int, along: _Along) -> None:
    place = next(place for place, node in enumerate(draft.nodes) if node.name == name)
    node = draft.nodes[place]
    inputs, tensor = list(node.inputs), node.inputs[index]
    value = _taken(draft.constants[tensor], along.first, along.order, along.axis)
    inputs[index] = put_constant(draft, tensor, f"{name}/constant", value, draft.types[tensor])
    draft.nodes[place] = replace(node, inputs=tuple(inputs))


def _moved_power(power: ChannelPower, first: int, order: AnyArray) -> ChannelPower:
    if power.axis != 1:
        return power
    figures = (power.mean_square, power.mean, power.low, power.high)
    return ChannelPower(1, *(_taken(figure, first, order) for figure in figures))


_ELEMENTWISE = (
    *("Abs", "Add", "Clip", "Div", "Dropout", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity"),
    *("LeakyRelu", "Max", "Min", "Mish", "Mul", "Neg", "PRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign"),
    *("Sqrt", "Sub", "Swish", "Tanh"),
)
_SPATIAL = (
    *("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Pad", "ReduceMax", "ReduceMean", "ReduceSum"),
    *("Resize", "Slice", "Upsample"),
)
_RULES: Mapping[str, Callable[[_Walk, Node, ChannelStretch], bool]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_SPATIAL, _spatial),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshape),
    "Concat": _concat,
    "Split": _split,
}
