"""Weights or activations: the float graph with only the one or only the other rounded to a low precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import Role, input_roles, weight_layout
from dovetail.ir.types import TensorType, dequantize_array, quantize_array
from dovetail.passes.draft import Draft
from dovetail.plan.units import clamp_host
from dovetail.quantize.parameters import choose_quantization, choose_weight_quantization
from dovetail.quantize.ranges import Ranges


def rounded_weights(graph: Graph, precision: Precision) -> Graph:
    """Return the float graph with the weights that a precision can hold."""
    draft = Draft.of(graph)
    for node in graph.nodes:
        layout = weight_layout(graph, node)
        if layout is None or Role.WEIGHT not in input_roles(graph, node):
            continue
        name = node.inputs[layout.weight]
        value = graph.constants[name].astype(np.float64)
        if not np.isfinite(value).all():
            continue
        quant = choose_weight_quantization(value, precision.weight, layout.channel_axis)
        stored = quantize_array(value, precision.weight.dtype, quant)
        fresh = draft.fresh(f"{name}/rounded")
        draft.constants[fresh] = dequantize_array(stored, quant).astype(graph.constants[name].dtype)
        draft.types[fresh] = graph.types[name]
        _reread(draft, node, {name: fresh})
    return draft.graph()


def rounded_activations(graph: Graph, ranges: Ranges, precision: Precision) -> Graph:
    """Return the float graph with every tensor rounded to what a precision can hold of its range.

    What a clamp follows at once is left: only the clamped tensor is stored.
    """
    draft = Draft.of(graph)
    form = precision.activation
    rounded: dict[str, str] = {}
    for tensor in (*graph.inputs, *(name for node in graph.nodes for name in node.outputs if name)):
        limits = ranges.tensors.get(tensor)
        followers = graph.consumers.get(tensor, ())
        if limits is None or any(clamp_host(graph, node) is not None for node in followers):
            continue
        kind = graph.types[tensor]
        stored, real = draft.fresh(f"{tensor}/stored"), draft.fresh(f"{tensor}/rounded")
        draft.types[stored] = TensorType(form.dtype, kind.shape, choose_quantization(limits, form))
        draft.types[real] = kind
        made = _renamed(draft, tensor) if tensor in graph.outputs and tensor in graph.producers else tensor
        real = tensor if made != tensor else real
        draft.nodes.append(Node(draft.node_name(f"store {tensor}"), "QuantizeLinear", (made,), (stored,)))
        draft.nodes.append(Node(draft.node_name(f"read {tensor}"), "DequantizeLinear", (stored,), (real,)))
        rounded[tensor] = real
    for node in graph.nodes:
        roles = input_roles(graph, node)
        data = {name for name, role in zip(node.inputs, roles, strict=True) if role is Role.DATA}
        _reread(draft, node, {name: rounded[name] for name in data & rounded.keys()})
    return draft.graph()


def _renamed(draft: Draft, output: str) -> str:
    """Let the node that makes an output make another tensor, and return its name."""
    fresh = draft.fresh(f"{output}/made")
    draft.types[fresh] = draft.types[output]
    index = next(index for index, node in enumerate(draft.nodes) if output in node.outputs)
    node = draft.nodes[index]
    draft.nodes[index] = replace(node, outputs=tuple(fresh if name == output else name for name in node.outputs))
    return fresh


def _reread(draft: Draft, node: Node, names: dict[str, str]) -> None:
    """Let a node read other tensors."""
    index = next(index for index, item in enumerate(draft.nodes) if item.name == node.name)
    held = draft.nodes[index]
    draft.nodes[index] = replace(held, inputs=tuple(names.get(name, name) for name in held.inputs))
