"""A node in two parts: each makes some of the output channels, and a Concat joins them in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import weight_layout
from dovetail.ir.types import TensorType
from dovetail.passes.draft import Draft, merge_origin
from dovetail.plan.units import clamp_host
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.statistics import ChannelPower, Statistics
from dovetail.repair.weights import WeightView, put_constant, weight_view


@dataclass(frozen=True, slots=True)
class ChannelPart:
    """A tensor that holds some channels (axis 1) of another."""

    whole: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class SplitGraph:
    """A graph with a node in parts, and what its new tensors are parts of."""

    graph: Graph
    parts: Mapping[str, ChannelPart]

    def carry(self, calibration: Calibration) -> Calibration:
        """Return what calibration would find, but for its digest and for ranges: a part is stored as the whole is."""
        ranges, means = dict(calibration.ranges.tensors), dict(calibration.ranges.means)
        powers = dict(calibration.statistics.tensors)
        for name, part in self.parts.items():
            if part.whole in ranges:
                ranges[name] = ranges[part.whole]
            if part.whole in means:
                means[name] = means[part.whole][part.start : part.stop]
            powers[name] = tuple(_part_power(item, part) for item in powers.get(part.whole, ()) if item.axis == 1)
        return replace(
            calibration,
            ranges=replace(calibration.ranges, tensors=ranges, means=means),
            statistics=Statistics(powers),
        )


def stored_by(graph: Graph, node: Node) -> Node:
    """Return the clamp that works in the same step as a node, or the node."""
    readers = graph.consumers.get(node.outputs[0], ())
    return next((reader for reader in readers if clamp_host(graph, reader) is not None), node)


def split_node(graph: Graph, node: Node, first: int) -> SplitGraph:
    """Return the graph with a weighted node, and its clamp, in two parts, of which one makes the first channels.

    The node has one group, or as many as channels; then its input is parted too.
    """
    last = stored_by(graph, node)
    draft = Draft.of(graph)
    draft.nodes = [item for item in draft.nodes if item.name not in (node.name, last.name)]
    view = weight_view(graph, node)
    assert view is not None
    cutter = _Cutter(draft, (first, view.outputs))
    read = (node.inputs[0],) * 2 if len(view.values) == 1 else cutter.cut(node)
    made = cutter.weigh(graph, view, read)
    origin = node.origin
    if last is not node:
        made, origin = cutter.repeat(last, made), merge_origin(node, last).origin
    join = draft.node_name(f"{node.name}/join")
    draft.nodes.append(Node(join, "Concat", made, last.outputs, {"axis": 1}, origin=origin))
    return SplitGraph(draft.graph(), cutter.parts)


@dataclass(slots=True)
class _Cutter:
    """Add parts of nodes to a draft; channels are cut at `stops`."""

    draft: Draft
    stops: tuple[int, int]
    parts: dict[str, ChannelPart] = field(default_factory=dict)

    def cut(self, node: Node) -> tuple[str, ...]:
        """ChannelPart what a node reads."""
        lengths = np.asarray([self.stops[0], self.stops[1] - self.stops[0]])
        sizes = put_constant(self.draft, "", f"{node.name}/sizes", lengths, TensorType(DType.I64, (2,)))
        made = tuple(self._name(node.inputs[0], number) for number in (0, 1))
        label = self.draft.node_name(f"{node.name}/cut")
        self.draft.nodes.append(Node(label, "Split", (node.inputs[0], sizes), made, {"axis": 1}, origin=node.origin))
        return made

    def weigh(self, graph: Graph, view: WeightView, read: tuple[str, ...]) -> tuple[str, ...]:
        """Add the parts of a weighted node."""
        node, layout = view.node, weight_layout(graph, view.node)
        assert layout is not None
        kind, weight = graph.types[node.inputs[1]], graph.constants[node.inputs[1]]
        made: list[str] = []
        for number, data in enumerate(read):
            name, label = self._name(node.outputs[0], number), self.draft.node_name(f"{node.name}/part{number}")
            channels = np.arange(self.parts[name].start, self.parts[name].stop)
            values = np.take(weight, channels, layout.channel_axis)
            inputs = [data, put_constant(self.draft, "", f"{label}/weight", values, kind)]
            if view.bias is not None:
                inputs.append(put_constant(self.draft, "", f"{label}/bias", view.bias[channels], kind))
            attributes = {**node.attributes, **({"group": len(channels)} if len(view.values) > 1 else {})}
            part = Node(label, node.op, tuple(inputs), (name,), attributes, node.domain, node.origin)
            self.draft.nodes.append(part)
            made.append(name)
        return tuple(made)

    def repeat(self, node: Node, read: tuple[str, ...]) -> tuple[str, ...]:
        """Add a node once for every part of what it reads."""
        made = tuple(self._name(node.outputs[0], number) for number in range(len(read)))
        for number, (data, name) in enumerate(zip(read, made, strict=True)):
            label = self.draft.node_name(f"{node.name}/part{number}")
            self.draft.nodes.append(replace(node, name=label, inputs=(data, *node.inputs[1:]), outputs=(name,)))
        return made

    def _name(self, whole: str, number: int) -> str:
        """Return a name for a part of a tensor."""
        part = ChannelPart(whole, (0, *self.stops)[number], self.stops[number])
        kind = self.draft.types[whole]
        assert kind.shape is not None
        name = self.draft.fresh(f"{whole}/part{number}")
        self.draft.types[name] = replace(kind, shape=(kind.shape[0], part.stop - part.start, *kind.shape[2:]))
        self.parts[name] = part
        return name


def _part_power(power: ChannelPower, part: ChannelPart) -> ChannelPower:
    figures = (power.mean_square, power.mean, power.low, power.high)
    return ChannelPower(1, *(figure[part.start : part.stop] for figure in figures))
