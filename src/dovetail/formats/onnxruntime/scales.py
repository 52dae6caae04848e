"""Arguments of ONNX Runtime's quantiser that hand over every scale of a plan, for a float model on the plan's grid.

Weights and biases are left to minimum and maximum, but for those whose integers these do not give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dovetail.formats.text import json_bytes
from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.ir.types import Quantization, TensorType
from dovetail.plan.quantized import QuantizedGraph
from dovetail.quantize.grid import GridConstant, GridGraph

_NAMES = {DType.U8: "QUInt8", DType.I8: "QInt8", DType.I16: "QInt16"}
_MATRIX_AXIS = {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}
_KEEPS_SCALE = ("AveragePool", "Resize")
"""Operators that compute new values, to which its quantiser gives the scale of their input."""

Override = dict[str, object]


def static_arguments(grid: GridGraph, quantized: QuantizedGraph, base: Precision) -> bytes:
    """Return the keyword arguments of `quantize_static` as JSON; types are spelled as `QuantType` names."""
    overrides = {tensor: [entry] for tensor, entry in _activations(grid.graph, quantized)}
    overrides.update(_constants(grid, quantized, base))
    quantised = [node for node in grid.graph.nodes if quantized.placements[node.name].precision.is_quantized]
    arguments = {
        "activation_type": _NAMES[base.activation.dtype],
        "weight_type": _NAMES[base.weight.dtype],
        "per_channel": base.weight.per_channel,
        "op_types_to_quantize": sorted({node.op for node in quantised}),
        "nodes_to_exclude": [
            node.name for node in grid.graph.nodes if node not in quantised or _rescales(node, quantized)
        ],
        "extra_options": {
            "ActivationSymmetric": False,
            "WeightSymmetric": base.weight.symmetric,
            # A scale that is symmetric cuts nothing off: the clip that the quantiser would remove is needed.
            "QDQKeepRemovableActivations": True,
            # What moves data at the start of the network is stored too.
            "ForceQuantizeNoInputCheck": True,
            "TensorQuantOverrides": overrides,
        },
    }
    return json_bytes(arguments)


def _rescales(node: Node, quantized: QuantizedGraph) -> bool:
    """Tell whether ONNX Runtime would keep the scale of the input where the plan has another one.

    Left out, the node computes between a dequantised input and an output that its readers quantise: the same.
    """
    placed = quantized.graph.node(node.name)
    read, made = (quantized.graph.types[name].quant for name in (placed.inputs[0], placed.outputs[0]))
    return node.op in _KEEPS_SCALE and read != made


def _activations(graph: Graph, quantized: QuantizedGraph) -> Iterator[tuple[str, Override]]:
    """Yield what a tensor is stored in, and what some readers have it converted to."""
    for tensor in (*graph.inputs, *graph.producers):
        kinds = _readings(graph, quantized, tensor)
        made = made_as(graph, quantized, tensor)
        stored = made if made is not None else next(iter(kinds.values()), None)
        if stored is None:
            continue
        entry = _scale(stored.dtype, _quant(stored))
        others = {reader: kind for reader, kind in kinds.items() if kind.dtype is not stored.dtype}
        if others:
            kind = next(iter(others.values()))
            entry["convert"] = {**_scale(kind.dtype, _quant(kind)), "recv_nodes": list(others)}
        yield tensor, entry


def made_as(graph: Graph, quantized: QuantizedGraph, tensor: str) -> TensorType | None:
    """Return the stored type of a tensor where the node that makes it quantises it."""
    producer = graph.producers.get(tensor)
    if producer is None:
        return None
    placed = quantized.graph.node(producer.name)
    kind = quantized.graph.types[placed.outputs[producer.outputs.index(tensor)]]
    return kind if kind.quant is not None else None


def _readings(graph: Graph, quantized: QuantizedGraph, tensor: str) -> Mapping[str, TensorType]:
    """Return, by reader, the stored type in which a tensor is read quantised."""
    kinds: dict[str, TensorType] = {}
    for reader in graph.consumers.get(tensor, ()):
        placed = quantized.graph.node(reader.name)
        for name, version in zip(reader.inputs, placed.inputs, strict=True):
            if name == tensor and quantized.graph.types[version].quant is not None:
                kinds[reader.name] = quantized.graph.types[version]
    return kinds


def stored_as(graph: Graph, quantized: QuantizedGraph, tensor: str, dtype: DType) -> TensorType | None:
    """Return the type of a tensor where it is stored, or read, in a number format; None where it never is."""
    kinds = (made_as(graph, quantized, tensor), *_readings(graph, quantized, tensor).values())
    return next((kind for kind in kinds if kind is not None and kind.dtype is dtype), None)


def read_type(quantized: QuantizedGraph, node: Node, position: int) -> TensorType:
    """Return the type in which a node reads an operand."""
    return quantized.graph.types[quantized.graph.node(node.name).inputs[position]]


def _constants(grid: GridGraph, quantized: QuantizedGraph, base: Precision) -> Iterator[tuple[str, list[Override]]]:
    """Yield the constants that the quantiser would store otherwise: other types, other scales, other axes."""
    for node in grid.graph.nodes:
        weight = _weight(grid, node)
        for name in node.inputs:
            constant = grid.constants.get(name)
            if constant is None or constant.kind.dtype not in _NAMES:
                continue
            usual = base.weight if name == weight else base.activation
            quant = _quant(constant.kind)
            axis = _usual_axis(node, constant) if name == weight and base.weight.per_channel else None
            precision = quantized.placements[node.name].precision
            form = precision.weight if name == weight else precision.activation
            as_usual = constant.kind.dtype is usual.dtype and quant.axis == axis and not form.power_of_two
            if not (as_usual and constant.derivable):
                yield name, stored_entries(constant.kind)


def _weight(grid: GridGraph, node: Node) -> str:
    return node.inputs[1] if node.op in (*_MATRIX_AXIS, "Gemm") and node.inputs[1] in grid.constants else ""


def _usual_axis(node: Node, constant: GridConstant) -> int | None:
    """Return the axis along which ONNX Runtime has a scale for each channel; None where it has one for all."""
    if node.op == "Gemm":
        return 0 if node.integer("transB", 0) else 1
    axis = _MATRIX_AXIS[node.op]
    return axis if axis < constant.stored.ndim else None


def stored_entries(kind: TensorType) -> list[Override]:
    """Return what is said of a constant: its scale, or one for each channel."""
    quant = _quant(kind)
    if quant.axis is None:
        return [_scale(kind.dtype, quant)]
    shared = {"quant_type": _NAMES[kind.dtype], "axis": quant.axis}
    pairs = zip(quant.scale, quant.zero_point, strict=True)
    return [{**shared, "scale": scale, "zero_point": zero} for scale, zero in pairs]


def _scale(dtype: DType, quant: Quantization) -> Override:
    return {"quant_type": _NAMES[dtype], "scale": quant.scale[0], "zero_point": quant.zero_point[0]}


def _quant(kind: TensorType) -> Quantization:
    assert kind.quant is not None
    return kind.quant
