"""Weights of accumulating operators as `[groups, outputs, inputs, taps]`, whatever the operator; and back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.types import TensorType
from dovetail.passes.draft import Draft

_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class WeightView:
    """The float weight of a node as `[groups, outputs, inputs, taps]`, float64, and its bias as `[outputs]` or None.

    Outputs and inputs are those of one group. Channels are axis 1 of what the node reads and makes.
    """

    node: Node
    values: AnyArray
    bias: AnyArray | None

    @property
    def outputs(self) -> int:
        """Return the number of output channels."""
        return int(self.values.shape[0] * self.values.shape[1])

    @property
    def inputs(self) -> int:
        """Return the number of input channels."""
        return int(self.values.shape[0] * self.values.shape[2])


def weight_view(graph: Graph, node: Node) -> WeightView | None:
    """Return the view of a node, or None where its weight is computed, shared by formats, or not per channel."""
    if node.domain or node.op not in _OPS or len(node.inputs) < 2:
        return None
    weight = graph.constants.get(node.inputs[1])
    data, made = (graph.types[name] for name in (node.inputs[0], node.outputs[0]))
    if weight is None or node.inputs[0] in graph.constants or not np.isfinite(weight).all():
        return None
    if any(not kind.dtype.is_float or kind.quant is not None for kind in (data, made, graph.types[node.inputs[1]])):
        return None
    values = _grouped(node, weight.astype(np.float64), data.rank)
    if values is None or values.size == 0:
        return None
    bias = _bias(graph, node, values.shape[0] * values.shape[1])
    return None if bias is _COMPUTED else WeightView(node, values, bias)


_COMPUTED = np.zeros(0)
"""Stands for a bias that is no constant per channel."""


def _grouped(node: Node, weight: AnyArray, rank: int | None) -> AnyArray | None:
    groups = node.integer("group", 1)
    if node.op == "Conv":
        return weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    if node.op == "ConvTranspose":
        grouped = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
        return grouped.transpose(0, 2, 1, 3)
    if rank != 2 or weight.ndim != 2 or node.integer("transA", 0):
        return None
    flat = weight if node.op == "Gemm" and node.integer("transB", 0) else weight.T
    return flat[None, :, :, None]


def _bias(graph: Graph, node: Node, channels: int) -> AnyArray | None:
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    if not name:
        return None
    value = graph.constants.get(name)
    if value is None or value.size not in (1, channels) or (value.size > 1 and value.shape[-1] != channels):
        return _COMPUTED
    if graph.types[name].quant is not None or not np.isfinite(value).all():
        return _COMPUTED
    return np.broadcast_to(value.astype(np.float64).reshape(-1), (channels,))


def store_weights(draft: Draft, view: WeightView) -> None:
    """Replace the weight and the bias of a node in a draft by those of a view of it."""
    node = draft.nodes[next(index for index, item in enumerate(draft.nodes) if item.name == view.node.name)]
    inputs = [*node.inputs, *[""] * (3 - len(node.inputs))] if view.bias is not None else list(node.inputs)
    kind = draft.types[node.inputs[1]]
    shape = draft.constants[node.inputs[1]].shape
    inputs[1] = put_constant(draft, inputs[1], f"{node.name}/weight", _ungrouped(node, view.values, shape), kind)
    if view.bias is not None:
        inputs[2] = put_constant(draft, inputs[2], f"{node.name}/bias", view.bias, kind)
    draft.nodes[draft.nodes.index(node)] = replace(node, inputs=tuple(inputs))


def _ungrouped(node: Node, values: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    if node.op == "ConvTranspose":
        values = values.transpose(0, 2, 1, 3)
    elif node.op in ("Gemm", "MatMul") and not (node.op == "Gemm" and node.integer("transB", 0)):
        return values[0, :, :, 0].T.reshape(shape)
    return values.reshape(shape)


def put_constant(draft: Draft, name: str, stem: str, value: AnyArray, kind: TensorType) -> str:
    """Store a constant under its own name where one node reads it once, else under a new one."""
    readers = [node for node in draft.nodes if name and name in node.inputs]
    alone = len(readers) == 1 and readers[0].inputs.count(name) == 1 and name not in draft.outputs
    captured = any(node.bodies() for node in draft.nodes)
    target = name if name and alone and not captured else draft.fresh(stem)
    draft.constants[target] = np.ascontiguousarray(value.astype(kind.dtype.carrier))
    draft.types[target] = TensorType(kind.dtype, tuple(value.shape))
    return target
