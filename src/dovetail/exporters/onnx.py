"""Write a Graph as an ONNX model that ONNX Runtime runs on a CPU.

A tensor `t` of quantised type keeps its name as the integer output of a QuantizeLinear; the operator that makes it
writes `t/real`, operators that read it read `t/dq`. Moves of data (Reshape, Transpose) get the same pairs: it is
always right, and ONNX Runtime removes the pairs. A float16 or bfloat16 tensor is stored in that type between nodes and
computed in float32: `t/f32`. An int64 bias has no DequantizeLinear in ONNX and is stored in 32 bits (`onnx_biases.py`).
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto

from dovetail.errors import GraphError
from dovetail.exporters.onnx_biases import StoredBias, bias_at_risk, exact_bias, narrowed
from dovetail.exporters.onnx_protos import attribute_proto, tensor_proto, value_info
from dovetail.ir import DOVETAIL_DOMAIN, OPSET, DType, Graph, Node, TensorType
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.node import without_facts
from dovetail.ir.roles import CONTROL_FLOW

_IR_VERSION = 10
_OPSET_OF_BYTES = 20
_NEW = frozenset({"GroupNormalization"})
"""Operators that mean something else in opset 21 than in 20."""
_HALVES = (DType.F16, DType.BF16)
_QUANTIZED = (DType.I8, DType.U8, DType.I16, DType.U16)
_TYPED_BY_ATTRIBUTE = CONTROL_FLOW | {
    "Cast",
    "CastLike",
    "ConstantOfShape",
    "EyeLike",
    "Identity",
    "RandomNormalLike",
    "RandomUniformLike",
    "Shape",
    "Size",
}
"""Operators that take and make half-precision tensors as they are."""


def to_onnx(graph: Graph) -> ModelProto:
    """Return the graph as a model of IR version 10; raise GraphError where ONNX has no form for it.

    It is of opset 21, or of 20 where bytes are all that is quantised (and GroupNormalization and bodies are not there):
    of 21, ONNX Runtime 1.31 does not load int8 that is moved in float. It gives Transpose, Reshape and the like a
    QuantizeLinear of int8, and changes only its zero point to uint8 afterwards.
    """
    taken = _all_names(graph)
    model = ModelProto(ir_version=_IR_VERSION, producer_name="dovetail")
    model.opset_import.append(OperatorSetIdProto(domain="", version=_OPSET_OF_BYTES if _is_bytes(graph) else OPSET))
    _Writer(graph, model.graph, taken, {}).write()
    return model


def _is_bytes(graph: Graph) -> bool:
    """Tell whether something is quantised, all of it in bytes, and nothing means something else in the older opset."""
    activations = {kind.dtype for kind in graph.types.values() if kind.quant is not None} & {*_QUANTIZED}
    bodies = any(True for node in graph.nodes for _ in node.bodies())
    news = any(node.op in _NEW and not node.domain for node in graph.nodes)
    return bool(activations) and activations <= {DType.I8, DType.U8} and not bodies and not news


def save_onnx(graph: Graph, path: str | PathLike[str]) -> None:
    """Write the graph to an ONNX file."""
    Path(fspath(path)).write_bytes(to_onnx(graph).SerializeToString())


def _all_names(graph: Graph) -> set[str]:
    names = set(graph.types)
    for node in graph.nodes:
        for body in node.bodies():
            if isinstance(body, Graph):
                names |= _all_names(body)
    return names


class _Writer:
    """Write one graph, or one body inside another.

    `visible` maps the names that the graphs around a body define to their names in the file.
    """

    def __init__(self, graph: Graph, proto: GraphProto, taken: set[str], visible: dict[str, str]) -> None:
        self.graph, self.proto, self.taken = graph, proto, taken
        self.inner = bool(visible)
        self.rounds = any(kind.quant is not None for kind in graph.types.values())
        self.names = {name: visible[name] for name in graph.captures if name in visible}
        self.reals: dict[str, str] = {}
        own = [*graph.inputs, *graph.constants, *(name for node in graph.nodes for name in node.outputs if name)]
        hidden = set(visible.values())
        for name in own:
            self.names[name] = self.fresh(name) if name in hidden else name
        self.visible = visible | self.names

    def fresh(self, stem: str) -> str:
        """Return a tensor name that the whole file does not use yet."""
        name, number = stem, 1
        while name in self.taken:
            name, number = f"{stem}.{number}", number + 1
        self.taken.add(name)
        return name

    def write(self) -> None:
        """Write everything into the message."""
        graph = self.graph
        self.proto.name = graph.name or "graph"
        for name in graph.inputs:
            self.proto.input.append(value_info(self.names[name], graph.types[name]))
        for name, array in graph.constants.items():
            kind = graph.types[name]
            if name in graph.outputs:
                # A constant output must be made by a node.
                stored = self.fresh(f"{name}/constant")
                self.add("Identity", [stored], self.names[name])
                self.proto.initializer.append(tensor_proto(stored, array, kind.dtype))
            elif kind.quant is not None and kind.dtype is DType.I64:
                self.reals[name] = self.bias(narrowed(array, kind.quant), self.names[name])
            else:
                self.proto.initializer.append(tensor_proto(self.names[name], array, kind.dtype))
        for node in graph.nodes:
            self.node(node)
        for name in graph.outputs:
            self.proto.output.append(value_info(self.output(name), graph.types[name]))

    def output(self, name: str) -> str:
        """Return the file's name of a graph output; a body cannot give back what it did not compute."""
        if self.inner and (name in self.graph.captures or name in self.graph.inputs):
            return self.add("Identity", [self.names[name]], self.fresh(f"{name}/out"))
        return self.names[name]

    def add(self, op: str, inputs: list[str], output: str, label: str = "") -> str:
        """Append a node of one output and return that output."""
        self.proto.node.append(NodeProto(op_type=op, name=label or f"{output}/{op}", input=inputs, output=[output]))
        return output

    def cast(self, source: str, target: str, dtype: DType) -> str:
        """Append a Cast."""
        self.add("Cast", [source], target)
        to = AttributeProto(name="to", type=AttributeProto.INT, i=ONNX_CODES[dtype])
        self.proto.node[-1].attribute.append(to)
        return target

    def parameters(self, name: str, kind: TensorType, node: str) -> list[str]:
        """Add the scale and zero point of a quantised tensor and return their names."""
        quant = kind.quant
        assert quant is not None
        shape = () if quant.axis is None else (len(quant.scale),)
        scale = np.array(quant.scale, dtype=np.float32).reshape(shape)
        zero = np.array(quant.zero_point, dtype=kind.dtype.carrier).reshape(shape)
        stem = self.names.get(name, name)
        names = [self.fresh(f"{stem}/scale"), self.fresh(f"{stem}/zero")]
        self.proto.initializer.append(tensor_proto(names[0], scale))
        self.proto.initializer.append(tensor_proto(names[1], zero))
        return names

    def boundary(self, op: str, source: str, target: str, name: str, label: str = "") -> str:
        """Append the QuantizeLinear or DequantizeLinear of tensor `name`."""
        kind = self.graph.types[name]
        if (
            kind.quant is not None
            and kind.dtype not in _QUANTIZED
            and (op == "QuantizeLinear" or kind.dtype != DType.I32)
        ):
            raise GraphError(f"tensor '{name}' is quantised in {kind.dtype.value}, which ONNX cannot compute")
        self.add(op, [source, *self._shared_parameters(name, kind, op)], target, label)
        if kind.quant is not None and kind.quant.axis is not None:
            axis = AttributeProto(name="axis", type=AttributeProto.INT, i=kind.quant.axis)
            self.proto.node[-1].attribute.append(axis)
        return target

    def bias(self, bias: StoredBias, target: str) -> str:
        """Add a bias, and append the DequantizeLinear that makes the real one."""
        stem = [self.fresh(f"{target}/{part}") for part in ("stored", "scale", "zero")]
        scale = bias.scale if bias.axis is not None else bias.scale.reshape(())
        for name, array in zip(stem, (bias.values, scale, np.zeros(scale.shape, np.int32)), strict=True):
            self.proto.initializer.append(tensor_proto(name, array))
        self.add("DequantizeLinear", stem, target)
        if bias.axis is not None:
            self.proto.node[-1].attribute.append(AttributeProto(name="axis", type=AttributeProto.INT, i=bias.axis))
        return target

    def inputs(self, node: Node) -> list[str]:
        """Return what a node reads, with the bias in another form where ONNX Runtime would take it for a mistake."""
        names, types = list[str](), self.graph.types
        as_is = node.op in _TYPED_BY_ATTRIBUTE
        for name in node.inputs:
            plain = not name or (as_is and types[name].quant is None)
            names.append(self.names[name] if name and plain else self.real(name) if name else "")
        index = bias_at_risk(self.graph, node) if self.rounds else None
        bias = None if index is None else exact_bias(self.graph, node, index)
        if index is not None and bias is not None:
            stem = (names[index] if len(names) > index else "") or f"{self.names[node.outputs[0]]}/bias"
            names[index : index + 1] = [self.bias(bias, self.fresh(f"{stem}/real"))]
        return names

    def _shared_parameters(self, name: str, kind: TensorType, op: str) -> list[str]:
        key = f"{name}/parameters"
        if key not in self.reals:
            scale, zero = self.parameters(name, kind, op)
            self.reals[key] = scale
            self.reals[f"{key}/zero"] = zero
        return [self.reals[key], self.reals[f"{key}/zero"]]

    def real(self, name: str) -> str:
        """Return the float32 form of a quantised or half-precision tensor."""
        kind = self.graph.types[name]
        if kind.quant is None and kind.dtype not in _HALVES:
            return self.names[name]
        if kind.quant is not None and kind.dtype is DType.I8 and name in self.graph.constants:
            return self.own_constant(name, kind)
        real = self.reals.get(name)
        if real is None:
            source = self.names[name]
            if kind.quant is not None:
                real = self.boundary("DequantizeLinear", source, self.fresh(f"{source}/dq"), name)
            else:
                real = self.cast(source, self.fresh(f"{source}/f32"), DType.F32)
            self.reals[name] = real
        return real

    def own_constant(self, name: str, kind: TensorType) -> str:
        """Return the float32 form of a constant in int8 for one reader: each has its own copy.

        Where ONNX Runtime takes int8 for uint8 (`session.x64quantprecision`), it does so for every reader, and names
        what it makes of one zero point alike: with two readers a model did not load (seen in 1.31).
        """
        stored = self.names[name]
        if f"{name}/parameters" in self.reals:
            del self.reals[f"{name}/parameters"]
            stored = self.fresh(f"{stored}/copy")
            self.proto.initializer.append(tensor_proto(stored, self.graph.constants[name], kind.dtype))
        return self.boundary("DequantizeLinear", stored, self.fresh(f"{stored}/dq"), name)

    def node(self, node: Node) -> None:
        """Write one node with the boundaries around it."""
        if node.op == "QuantizeLinear" and not node.domain and len(node.inputs) == 1:
            target = node.outputs[0]
            self.boundary("QuantizeLinear", self.real(node.inputs[0]), self.names[target], target, node.name)
        elif node.op == "DequantizeLinear" and not node.domain and len(node.inputs) == 1:
            self.dequantize(node)
        elif node.domain == DOVETAIL_DOMAIN and node.op == "Requantize":
            target = node.outputs[0]
            self.boundary("QuantizeLinear", self.real(node.inputs[0]), self.names[target], target, node.name)
        elif node.domain:
            raise GraphError(f"{node.label}: ONNX has no operator of domain '{node.domain}'")
        else:
            self.compute(node)

    def dequantize(self, node: Node) -> None:
        """Write an explicit DequantizeLinear; it makes float32, a cast gives another float type."""
        source, target = node.inputs[0], node.outputs[0]
        dtype = self.graph.types[target].dtype
        if dtype is DType.F32 and self.graph.types[source].dtype is not DType.I64:
            self.boundary("DequantizeLinear", self.names[source], self.names[target], source, node.name)
        else:
            self.cast(self.real(source), self.names[target], dtype)

    def compute(self, node: Node) -> None:
        """Write an ordinary operator: reals in float32 inside, stored in their own type outside."""
        types = self.graph.types
        as_is = node.op in _TYPED_BY_ATTRIBUTE
        halves = not as_is and any(types[name].dtype in _HALVES for name in node.inputs if name)
        proto = NodeProto(op_type=node.op, name=node.name, input=self.inputs(node))
        after: list[tuple[str, str]] = []
        for name in node.outputs:
            stored = self.names[name] if name else ""
            if name and types[name].quant is not None:
                stored = self.fresh(f"{stored}/real")
                after.append((stored, name))
            elif name and types[name].dtype in _HALVES and (halves or self._quantized_inputs(node)):
                stored = self.fresh(f"{stored}/f32")
                after.append((stored, name))
            proto.output.append(stored)
        for key, value in without_facts(node.attributes).items():
            proto.attribute.append(self.attribute(node, key, value))
        self.proto.node.append(proto)
        for stored, name in after:
            if types[name].quant is not None:
                self.boundary("QuantizeLinear", stored, self.names[name], name)
            else:
                self.cast(stored, self.names[name], types[name].dtype)

    def _quantized_inputs(self, node: Node) -> bool:
        return any(self.graph.types[name].quant is not None for name in node.inputs if name)

    def attribute(self, node: Node, key: str, value: object) -> AttributeProto:
        """Return an attribute; bodies are written with the names that they see."""
        if not isinstance(value, Graph):
            return attribute_proto(node, key, value)
        proto = AttributeProto(name=key, type=AttributeProto.GRAPH)
        visible = self.visible or {"": ""}
        writer = _Writer(value, proto.g, self.taken, visible)
        writer.rounds |= self.rounds
        writer.write()
        return proto
