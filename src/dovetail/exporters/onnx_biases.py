"""Biases that ONNX Runtime leaves alone.

Where a Conv, a ConvTranspose or a Gemm reads a DequantizeLinear and a QuantizeLinear reads it, ONNX Runtime takes a
float weight or bias for one that was forgotten: unless told not to optimise, it rounds weights to 8 bits and biases to
32 (`WeightBiasQuantization`, seen in 1.31). A layer that was meant to be float is not, and a bias at the steps of
16-bit tensors and weights overflows: the outputs are garbage. It does nothing where a DequantizeLinear makes the bias.

What stands where is decided after it has moved pairs past Transpose, Reshape and the like, made a MatMul and a sum one
Gemm, and folded what it can: so every such layer of a graph that is quantised anywhere is kept from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.ir import AnyArray, DType, Graph, Node
from dovetail.ir.types import Quantization

WEIGHED = frozenset({"Conv", "ConvTranspose", "Gemm"})
"""Whose float weights ONNX Runtime rounds."""
_WIDE = (DType.I16, DType.U16)
_REALS = (DType.F32, DType.F16)
"""What is computed in float32 in the file."""
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StoredBias:
    """Integers of 32 bits, and a scale: one, or one for each along an axis."""

    values: AnyArray
    scale: AnyArray
    axis: int | None


def bias_at_risk(graph: Graph, node: Node) -> int | None:
    """Return which input of a node is a bias that ONNX Runtime would round, or would add to round a float weight.

    None where it does not: of bytes it takes a bias as it is, with the steps of what is multiplied.
    """
    if node.domain:
        return None
    if node.op == "Add":
        pairs = ((node.inputs[0], 1), (node.inputs[1], 0))
        return next((other for tensor, other in pairs if _is_float_product(graph, tensor)), None)
    if node.op not in WEIGHED:
        return None
    data, weight = (graph.types[name] for name in node.inputs[:2])
    wide = data.dtype in _WIDE or weight.dtype in _WIDE
    return 2 if weight.quant is None or (wide and len(node.inputs) > 2) else None


def _is_float_product(graph: Graph, tensor: str) -> bool:
    """Tell whether a tensor is what a MatMul makes with a constant float weight."""
    node = graph.producers.get(tensor)
    if node is None or node.op != "MatMul" or node.domain:
        return False
    return node.inputs[1] in graph.constants and graph.types[node.inputs[1]].quant is None


def exact_bias(graph: Graph, node: Node, index: int) -> StoredBias | None:
    """Return the float bias that a node reads, zeros where it has none, in a form that gives it back to the last bit.

    None where ONNX has no such form: it is computed, not finite, or of several axes.
    """
    name = node.inputs[index] if len(node.inputs) > index else ""
    if name and (name not in graph.constants or graph.types[name].dtype not in _REALS):
        return None
    channels = 0 if name else _channels(graph, node)
    if channels is None:
        return None
    value = graph.constants[name].astype(np.float32) if name else np.zeros(channels, np.float32)
    axis = value.ndim - 1
    if axis < 0 or math.prod(value.shape[:-1]) != 1 or not np.isfinite(value).all():
        return None
    scale = np.abs(value).reshape(-1)
    return StoredBias(np.sign(value).astype(np.int32), np.where(scale > 0, scale, np.float32(1)), axis)


def _channels(graph: Graph, node: Node) -> int | None:
    """Return for how many channels a node has a bias; None where the shape of its weight is not known."""
    shape = graph.types[node.inputs[1]].static_shape
    if shape is None or graph.types[node.inputs[1]].dtype not in _REALS:
        return None
    if node.op == "ConvTranspose":
        return shape[1] * node.integer("group", 1)
    return shape[0] if node.op == "Conv" or node.integer("transB", 0) else shape[1]


def narrowed(values: AnyArray, quant: Quantization) -> StoredBias:
    """Return integers of 64 bits in 32, at steps that are 2, 4, 8, ... times as large where they do not fit.

    Where they fit nothing is lost, else less than what float32 can hold of the largest.
    """
    axis, scale = quant.axis, np.array(quant.scale, dtype=np.float64)
    others = tuple(index for index in range(values.ndim) if index != axis)
    largest = np.abs(values.astype(np.float64)).max(axis=others, initial=1.0).reshape(-1)
    shifts = np.maximum(0, np.ceil(np.log2(np.maximum(largest, 1.0) / _MOST))).astype(np.int64)
    steps = (2.0**shifts).reshape([-1 if index == axis else 1 for index in range(values.ndim)])
    stored = np.clip(np.rint(values / steps), -_MOST, _MOST).astype(np.int32)
    return StoredBias(stored, (scale * 2.0**shifts).astype(np.float32), axis)
