"""How an ONNX model with Quantize/Dequantize pairs stores what its nodes read and make, beside a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from onnx import ModelProto, NodeProto, TensorProto

from dovetail.formats.consumer import FLOAT, PER_CHANNEL, ReadNode, judge_node, weight_text
from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.roles import CLAMPS, Role, input_roles, weight_layout
from dovetail.plan.plan import Plan

_TYPES: Mapping[int, str] = {
    TensorProto.INT8: DType.I8.value,
    TensorProto.UINT8: DType.U8.value,
    TensorProto.INT16: DType.I16.value,
    TensorProto.UINT16: DType.U16.value,
    TensorProto.INT32: DType.I32.value,
}
_RENAMED = "_QuantizeLinear_Input"
"""Ends the name of a graph's output where ONNX Runtime's quantiser has put a pair behind it."""


@dataclass(frozen=True)
class StoredModel:
    """A model whose quantised tensors are Quantize/Dequantize pairs."""

    model: ModelProto

    @cached_property
    def _producers(self) -> Mapping[str, NodeProto]:
        return {name: node for node in self.model.graph.node for name in node.output}

    @cached_property
    def _quantised(self) -> Mapping[str, str]:
        """Map tensors to what the QuantizeLinear that reads them makes."""
        nodes = [node for node in self.model.graph.node if node.op_type == "QuantizeLinear"]
        return {node.input[0]: self._type(node) for node in nodes}

    @cached_property
    def _constants(self) -> Mapping[str, TensorProto]:
        return {item.name: item for item in self.model.graph.initializer}

    @cached_property
    def _by_name(self) -> Mapping[str, NodeProto]:
        return {node.name: node for node in self.model.graph.node}

    def node(self, node: Node) -> NodeProto | None:
        """Return the node of the file that a node of the graph stands for; None where it is joined with another."""
        candidates = (self._by_name.get(name) for name in (node.name, *node.origin))
        return next((item for item in candidates if item is not None and item.op_type == node.op), None)

    def read(self, tensor: str) -> str:
        """Return the type from which a node reads a tensor: that of the DequantizeLinear before it.

        Integers of 32 bits are as good as floats, and a bias may be stored in them beside float weights.
        """
        producer = self._producers.get(tensor)
        found = self._type(producer) if producer is not None and producer.op_type == "DequantizeLinear" else FLOAT
        return FLOAT if found.startswith(DType.I32.value) else found

    def made(self, tensor: str) -> str:
        """Return the type in which a tensor is stored once it is made."""
        producer = self._producers.get(tensor)
        if producer is not None and producer.op_type in ("QuantizeLinear", "DequantizeLinear"):
            # The runtime has another operator in the place of the node, and only the stored tensor has its name.
            return self._type(producer)
        return self._quantised.get(tensor) or self._quantised.get(f"{tensor}{_RENAMED}") or FLOAT

    def _type(self, pair: NodeProto) -> str:
        zero = self._constants.get(pair.input[2]) if len(pair.input) > 2 else None
        scale = self._constants.get(pair.input[1])
        name = _TYPES.get(zero.data_type, "?") if zero is not None else DType.U8.value
        several = scale is not None and len(scale.dims) > 0 and scale.dims[0] > 1
        return name + (PER_CHANNEL if several else "")


def compare_stored(graph: Graph, plan: Plan, stored: StoredModel) -> Iterator[ReadNode]:
    """Yield every node of a graph that computes reals: as the plan asks, and as the model stores what it touches."""
    for node in graph.nodes:
        found = stored.node(node)
        reads, makes = dict(_asked_inputs(graph, plan, node)), dict(_asked_outputs(graph, plan, node))
        if not reads and not makes:
            continue
        if found is None:
            # A clip that the range of its output replaces, or operators of the file that are one here.
            pairs = [(text, _made(graph, stored, node.outputs[index])) for index, text in makes.items()]
        else:
            pairs = [(text, stored.read(found.input[index])) for index, text in reads.items()]
            pairs += [(text, stored.made(found.output[index])) for index, text in makes.items()]
        yield judge_node(node, plan.placement(node.name).precision, pairs)


def _made(graph: Graph, stored: StoredModel, tensor: str) -> str:
    """Return how a tensor is stored: under its own name, that in the source file, or as what a joined clamp makes."""
    own = stored.made(tensor)
    own = stored.made(graph.origin_of(tensor)) if own == FLOAT else own
    readers = graph.consumers.get(tensor, ())
    if own != FLOAT or len(readers) != 1 or readers[0].op not in CLAMPS or stored.node(readers[0]) is not None:
        return own
    return _made(graph, stored, readers[0].outputs[0])


def _asked_inputs(graph: Graph, plan: Plan, node: Node) -> Iterator[tuple[int, str]]:
    """Yield the index of every real that a node reads, and the type that the plan has it rounded to before."""
    precision = plan.placement(node.name).precision
    for index, (tensor, role) in enumerate(zip(node.inputs, input_roles(graph, node), strict=True)):
        if role is Role.WEIGHT and precision.is_quantized:
            yield index, weight_text(precision, _channels(graph, node, tensor))
        elif role is Role.DATA and precision.is_quantized:
            yield index, precision.activation.dtype.value
        elif tensor in graph.constants and role is not Role.CONTROL and not precision.is_quantized:
            yield index, FLOAT
        elif role is Role.DATA:
            producer = graph.producers.get(tensor)
            before = None if producer is None else plan.placement(producer.name).precision
            yield index, before.activation.dtype.value if before is not None and before.is_quantized else FLOAT


def _channels(graph: Graph, node: Node, tensor: str) -> int:
    layout = weight_layout(graph, node)
    shape = graph.constants[tensor].shape
    axis = layout.channel_axis if layout is not None else -1
    return shape[axis] if 0 <= axis < len(shape) else 1


def _asked_outputs(graph: Graph, plan: Plan, node: Node) -> Iterator[tuple[int, str]]:
    precision = plan.placement(node.name).precision
    if precision.is_quantized:
        for index, tensor in enumerate(node.outputs):
            if tensor and graph.types[tensor].holds_reals:
                yield index, precision.activation.dtype.value
