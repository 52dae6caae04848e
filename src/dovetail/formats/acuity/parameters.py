"""The parameters of every tensor, in Acuity's terms, from the types of a quantised graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dovetail.formats.acuity.network import CONSTANT, AcuityLayer, AcuityNetwork
from dovetail.formats.acuity.table import TensorParameters, tensor_key
from dovetail.formats.binding import Binding
from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import NumberFormat, Precision
from dovetail.ir.roles import weight_layout
from dovetail.ir.types import Quantization, TensorType
from dovetail.plan.quantized import QuantizedGraph

_WEIGHTED = frozenset({"convolution", "deconvolution", "fullconnect"})


def table_parameters(
    network: AcuityNetwork, binding: Binding, quantized: QuantizedGraph, source: Graph
) -> Mapping[str, TensorParameters]:
    """Return the parameters of every output, weight and bias that is quantised; float tensors are absent."""
    graph = quantized.graph
    stored = {graph.origin_of(name): name for name in reversed(list(graph.types)) if name not in graph.constants}
    tensors = network.tensors(source)
    nodes = {node.name: node for node in graph.nodes}
    outputs: dict[str, TensorParameters] = {}
    weights: dict[str, TensorParameters] = {}
    for layer in network.layers.values():
        found = _output(graph, quantized, layer, stored.get(tensors.get(layer.lid, ""), ""))
        if found is not None:
            outputs[tensor_key(layer.lid, "out0")] = found
        for name in binding.nodes_of.get(layer.lid, ()) if layer.op in _WEIGHTED or "conv" in layer.op else ():
            if name in nodes:
                weights |= _weights(graph, nodes[name], layer.lid, quantized.placements[name].precision)
    for layer in network.layers.values():
        users = network.readers.get(layer.lid, ())
        if layer.op == "output" and tensor_key(layer.inputs[0], "out0") in outputs:
            outputs[tensor_key(layer.lid, "out0")] = outputs[tensor_key(layer.inputs[0], "out0")]
        elif layer.op == CONSTANT and users and tensor_key(layer.lid, "out0") not in outputs:
            readers = [nodes[name] for name in binding.nodes_of.get(users[0], ()) if name in nodes]
            constant = _constant(graph, layer, readers)
            if constant is not None:
                outputs[tensor_key(layer.lid, "out0")] = constant
    return outputs | weights


def _output(graph: Graph, quantized: QuantizedGraph, layer: AcuityLayer, name: str) -> TensorParameters | None:
    kind = graph.types.get(name)
    if kind is None or layer.op in ("output", CONSTANT):
        return None
    node = graph.producers.get(name)
    precision = None if node is None else quantized.placements[node.name].precision
    return describe(kind, None if precision is None else precision.activation)


def _constant(graph: Graph, layer: AcuityLayer, readers: Sequence[Node]) -> TensorParameters | None:
    """Return the parameters of a constant operand as the node that reads it stores it."""
    for node in readers:
        for tensor in node.inputs:
            source = graph.origin_of(tensor)
            if tensor in graph.constants and source in layer.possible_tensors:
                return describe(graph.types[tensor], None)
    return None


def _weights(graph: Graph, node: Node, lid: str, precision: Precision) -> dict[str, TensorParameters]:
    layout = weight_layout(graph, node)
    if layout is None:
        return {}
    parameters: dict[str, TensorParameters] = {}
    weight = describe(graph.types[node.inputs[layout.weight]], precision.weight)
    if weight is not None:
        parameters[tensor_key(lid, "weight")] = weight
    if layout.bias is not None and layout.bias < len(node.inputs) and node.inputs[layout.bias]:
        bias = describe(graph.types[node.inputs[layout.bias]], precision.activation)
        if bias is not None:
            parameters[tensor_key(lid, "bias")] = bias
    return parameters


def describe(kind: TensorType, form: NumberFormat | None) -> TensorParameters | None:
    """Return the parameters of a type; None for 32-bit floats and what holds no reals.

    `form` tells dynamic fixed point from a scale that happens to be a power of two.
    """
    if kind.dtype in (DType.F16, DType.BF16):
        name = "float16" if kind.dtype is DType.F16 else "bfloat16"
        return TensorParameters(name, name)
    quant = kind.quant
    if quant is None:
        return None
    lowest, highest = kind.dtype.integer_range
    if quant.per_channel:
        return TensorParameters(
            kind.dtype.value,
            "perchannel_symmetric_affine",
            quant_range_mode=1,
            scale=quant.scale,
            channel_dim=quant.axis,
        )
    zero = quant.zero_point[0]
    common = TensorParameters(
        kind.dtype.value,
        "asymmetric_affine",
        max_value=(highest - zero) * quant.scale[0],
        min_value=(lowest - zero) * quant.scale[0],
    )
    if form is not None and form.power_of_two:
        return _with(common, "dynamic_fixed_point", fl=_fraction(quant))
    scale = quant.scale[0]
    if form is not None and form.symmetric and kind.dtype not in (DType.I32, DType.I64):
        return _with(common, "symmetric_affine", scale=scale, zero_point=0)
    return _with(common, "asymmetric_affine", scale=scale, zero_point=zero)


def _with(
    common: TensorParameters,
    quantizer: str,
    *,
    scale: float | None = None,
    zero_point: int | None = None,
    fl: int | None = None,
) -> TensorParameters:
    return TensorParameters(
        common.qtype,
        quantizer,
        max_value=common.max_value,
        min_value=common.min_value,
        scale=scale,
        zero_point=zero_point,
        fl=fl,
    )


def _fraction(quant: Quantization) -> int:
    return -round(math.log2(quant.scale[0]))
