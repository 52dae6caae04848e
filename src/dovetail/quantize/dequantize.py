"""Turn a quantised graph into the float graph that it approximates, with the ranges that its scales can represent.

That is what lets a model that arrived quantised be planned and tuned: a unit raised to a higher precision computes with
the dequantised weights, a unit left low gets its own scales again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node, without_facts
from dovetail.ir.roles import CLAMP_HOSTS, CLAMPS
from dovetail.ir.types import Quantization, TensorType, dequantize_array
from dovetail.passes import normalize
from dovetail.passes.draft import Draft
from dovetail.quantize.calibrate import Calibration
from dovetail.quantize.ranges import Range, Ranges

METHOD = "file"
"""What Ranges say of the way in which these were found."""

_RAW = "/unclamped"
"""Ends the name of what a node computes before its storage clamps it."""

_BOUNDARIES = ("QuantizeLinear", "DequantizeLinear", "Requantize")


@dataclass(frozen=True, slots=True)
class Dequantized:
    """The float graph in normal form and the ranges of the tensors that were quantised."""

    graph: Graph
    ranges: Ranges

    def refine(self, calibration: Calibration) -> Calibration:
        """Return a calibration of the float graph whose ranges are the file's wherever the file has one."""
        tensors = {**calibration.ranges.tensors, **self.ranges.tensors}
        ranges = replace(calibration.ranges, method=f"{METHOD}+{calibration.ranges.method}", tensors=tensors)
        return replace(calibration, ranges=ranges)


def is_quantized(graph: Graph) -> bool:
    """Tell whether any tensor of a graph is stored as quantised integers; bodies are looked into."""
    if any(kind.quant is not None for kind in graph.types.values()):
        return True
    return any(is_quantized(body) for node in graph.nodes for body in node.bodies() if isinstance(body, Graph))


def dequantize(graph: Graph) -> Dequantized:
    """Return the float graph of a quantised one: inputs and outputs become the reals that their integers stand for.

    Boundaries vanish, weights and biases are dequantised, names stay. A tensor that was float has no range here.
    """
    limits = {
        name: _range(kind.dtype, kind.quant)
        for name, kind in graph.types.items()
        if kind.quant is not None and name not in graph.constants and not kind.quant.per_channel
    }
    plain = normalize(_float_graph(graph))
    known = {*plain.inputs, *(name for node in plain.nodes for name in node.outputs)}
    tensors = {name: limits[stored] for name in known if (stored := name.partition(_RAW)[0]) in limits}
    return Dequantized(plain, Ranges(plain.digest, METHOD, 0, tensors))


def _range(dtype: DType, quant: Quantization) -> Range:
    lowest, highest = dtype.integer_range
    scale, zero = quant.scale[0], quant.zero_point[0]
    return Range((lowest - zero) * scale, (highest - zero) * scale)


def _float_graph(graph: Graph) -> Graph:
    draft = Draft.of(graph)
    for name, kind in graph.types.items():
        if kind.quant is None:
            continue
        if name in draft.constants:
            draft.constants[name] = dequantize_array(draft.constants[name], kind.quant)
        draft.types[name] = TensorType(DType.F32, kind.shape)
    nodes: list[Node] = []
    for node in draft.nodes:
        plain = _float_node(graph, node)
        nodes.append(plain)
        if saturates_at_zero(graph, node):
            # What the integers clamp without a word: exporters drop a Relu whose work the zero point does.
            (tensor,) = node.outputs
            raw = draft.fresh(tensor + _RAW)
            draft.types[raw] = draft.types[tensor]
            nodes[-1] = replace(plain, outputs=(raw,))
            nodes.append(Node(f"{node.name}/relu", "Relu", (raw,), (tensor,), origin=node.origin))
    draft.nodes = nodes
    return draft.graph()


def saturates_at_zero(graph: Graph, node: Node) -> bool:
    """Tell whether storing the only output of a node cuts off negative values that the node may compute."""
    if len(node.outputs) != 1 or not (node.op in CLAMP_HOSTS or node.op in _BOUNDARIES):
        return False
    kind = graph.types[node.outputs[0]]
    if kind.quant is None or kind.quant.per_channel or kind.quant.zero_point[0] != kind.dtype.integer_range[0]:
        return False
    if node.op in _BOUNDARIES:
        source = graph.types[node.inputs[0]].quant
        return source is None or source.zero_point != kind.quant.zero_point
    readers = graph.consumers.get(node.outputs[0], ())
    return not (len(readers) == 1 and readers[0].op in CLAMPS)


def _float_node(graph: Graph, node: Node) -> Node:
    attributes = {
        name: _float_graph(value) if isinstance(value, Graph) else value
        for name, value in without_facts(node.attributes).items()
    }
    types = [graph.types[name] for name in (*node.inputs[:1], *node.outputs[:1]) if name]
    if node.op in _BOUNDARIES and len(node.inputs) == 1 and any(kind.quant is not None for kind in types):
        return replace(node, op="Identity", domain="", attributes={})
    return replace(node, attributes=attributes)
