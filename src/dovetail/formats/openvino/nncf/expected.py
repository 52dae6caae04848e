"""The model that NNCF is expected to make of a plan: the float model with roundings where NNCF's rules have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.data import SampleSource
from dovetail.formats.openvino.nncf.points import PointRounding, rounding_points
from dovetail.formats.openvino.nncf.ranges import ByteRange, byte_range, rounded_weight
from dovetail.formats.openvino.nncf.statistics import CHANNELS, watch
from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import weight_layout
from dovetail.ir.types import TensorType
from dovetail.passes.draft import Draft
from dovetail.plan.plan import Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize.boundaries import WORLD


def expected_model(graph: Graph, plan: Plan, samples: SampleSource) -> QuantizedGraph:
    """Return what NNCF is expected to make of the ignored scope of a plan with samples to calibrate on.

    It computes in float32, with activations and weights as NNCF's rules round them. Raises DeviceError where the model
    does not run on the samples.
    """
    made = _Expected(graph, plan, samples).model()
    return QuantizedGraph(made, Plan(made.digest, WORLD), {node.name: WORLD for node in made.nodes})


class _Expected:
    """Collect the nodes and constants of the expected model."""

    def __init__(self, graph: Graph, plan: Plan, samples: SampleSource) -> None:
        self._graph = graph
        self._points = rounding_points(graph, plan)
        self._weighted = {
            node.name: layout
            for node in graph.nodes
            if plan.placement(node.name).precision.is_quantized and (layout := weight_layout(graph, node)) is not None
        }
        needed = [name for point in self._points.values() for name in point.reach]
        self._held = watch(graph, samples, list(dict.fromkeys(needed)))
        self._draft = Draft.of(graph)
        self._draft.nodes = []
        self._names = frozenset(node.name for node in graph.nodes)
        self._made: dict[tuple[str, PointRounding], str] = {}

    def model(self) -> Graph:
        """Return the graph."""
        for node in self._graph.nodes:
            self._draft.nodes.append(self._node(node))
        return self._draft.graph()

    def _node(self, node: Node) -> Node:
        inputs = list(node.inputs)
        for index, tensor in enumerate(node.inputs):
            point = self._points.get((node.name, index))
            if point is not None:
                inputs[index] = self._rounded(tensor, point)
        layout = self._weighted.get(node.name)
        if layout is not None:
            weight = rounded_weight(self._graph, node, layout)
            inputs[layout.weight] = self._constant(f"{node.inputs[layout.weight]}/rounded", weight)
        return replace(node, inputs=tuple(inputs))

    def _rounded(self, tensor: str, point: PointRounding) -> str:
        """Return a tensor rounded, by nodes that are added where there are none yet."""
        known = self._made.get((tensor, point))
        if known is not None:
            return known
        kind, limits = self._graph.types[tensor], self._limits(point)
        hold = (("Max", limits.low), ("Min", limits.high))
        step = (("Div", limits.step), ("Round", None), ("Mul", limits.step))
        name = tensor
        for op, operand in hold if point.held_only else (*hold, *step):
            made = self._draft.fresh(f"{tensor}/{op.lower()}")
            self._draft.types[made] = kind
            shaped = () if operand is None else (self._constant(f"{made}/with", self._shaped(operand, kind)),)
            label = self._draft.node_name(f"{op}({name})", self._names)
            self._draft.nodes.append(Node(label, op, (name, *shaped), (made,)))
            name = made
        self._made[tensor, point] = name
        return name

    def _limits(self, point: PointRounding) -> ByteRange:
        held = [self._held[name] for name in point.reach]
        if point.per_channel:
            return byte_range(held[0].low, held[0].high)
        low, high = min(item.low.min() for item in held), max(item.high.max() for item in held)
        return byte_range(np.asarray(low), np.asarray(high))

    def _shaped(self, values: AnyArray, kind: TensorType) -> AnyArray:
        """Return numbers in the type of a tensor, along its channels where there are several."""
        values = values.astype(kind.dtype.carrier)
        return values.reshape(-1, *[1] * ((kind.rank or 0) - CHANNELS - 1)) if values.ndim else values

    def _constant(self, name: str, value: AnyArray) -> str:
        made = self._draft.fresh(name)
        value = np.ascontiguousarray(value)
        value.setflags(write=False)
        self._draft.constants[made] = value
        self._draft.types[made] = TensorType(DType.of(value.dtype), tuple(value.shape))
        return made
