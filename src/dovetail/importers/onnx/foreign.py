"""Rewrite integer operators (QLinear*, *Integer, DynamicQuantizeLinear) over quantised types; refuse others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, defs, helper

from dovetail.errors import LoadError
from dovetail.facts.onnxruntime import WEIGHT_ZEROS
from dovetail.importers.onnx.dynamic import DYNAMIC, MICROSOFT, TRY_FLOATS
from dovetail.importers.onnx.reader import OnnxSource, all_graphs, node_label
from dovetail.importers.onnx.tensors import Stored
from dovetail.ir import OPSET, AnyArray, DType

_EXACT_IN_FLOAT = 2**24
"""Integers up to here are exact in float32."""
_ONE_AXIS = 13
"""Since this opset Softmax runs over one axis."""


class _Rewriter:
    """Collect the nodes that stand for one node."""

    def __init__(self, source: OnnxSource, node: NodeProto) -> None:
        self.source, self.node = source, node
        self.nodes: list[NodeProto] = []
        self.label = f"{source.where}: {node_label(node)}"

    def name(self, index: int) -> str:
        """Return an input's name, empty when it is omitted."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def value(self, index: int, what: str) -> AnyArray:
        """Return the value of a constant input; raise LoadError when it is computed."""
        stored = self.source.constants.get(self.name(index))
        if stored is None:
            raise self.refused(f"its {what} is not a constant")
        return stored.array

    def has_scalar(self, index: int) -> bool:
        """Tell whether an input is a zero point that DynamicQuantizeLinear computes."""
        makers = (node for node in self.source.graph.node if self.name(index) in node.output[2:3])
        return any(node.op_type == "DynamicQuantizeLinear" for node in makers)

    def refused(self, reason: str) -> LoadError:
        """Return the error that says why this node cannot be represented."""
        return LoadError(f"{self.label}: {reason}.", source_node=self.node.name, hint="Export the float or Q/DQ model.")

    def constant(self, label: str, array: AnyArray) -> str:
        """Add a constant of this node's own."""
        name = f"{self.node.name}/{label}"
        self.source.constants[name] = Stored(DType.of(array.dtype), array)
        return name

    def add(self, op: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = output or f"{self.node.name}/{op.lower()}{len(self.nodes)}"
        title = f"{self.node.name}/{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], title, **attributes))
        self.source.origins[title] = self.source.origins.get(self.node.name, (self.node.name,))
        return name

    def dequantize(self, tensor: int, scale: int, zero: int, axis: int | None = None) -> str:
        """Add a DequantizeLinear of the inputs at these places."""
        attributes: dict[str, Any] = {}
        values = self.value(scale, "scale")
        if values.size > 1 and axis is not None:
            attributes["axis"] = axis
        elif values.size > 1:
            raise self.refused("it has several scales where one is expected")
        inputs = [self.name(tensor), self.name(scale), self.name(zero)]
        return self.add("DequantizeLinear", inputs if inputs[2] else inputs[:2], **attributes)

    def quantize(self, real: str, scale: int, zero: int) -> None:
        """Add the QuantizeLinear that makes the node's output."""
        inputs = [real, self.name(scale), self.name(zero)]
        self.add("QuantizeLinear", inputs if inputs[2] else inputs[:2], self.node.output[0])

    def attributes(self, *without: str) -> dict[str, Any]:
        """Return the node's attributes but for the named ones."""
        kept = (item for item in self.node.attribute if item.name not in without)
        return {item.name: helper.get_attribute_value(item) for item in kept}


def rewrite_foreign(source: OnnxSource) -> None:
    """Rewrite in place; raise LoadError naming the first operator that has no meaning here."""
    for graph in all_graphs(source.graph):
        nodes: list[NodeProto] = []
        for node in graph.node:
            rewrite = _REWRITES.get((node.domain, node.op_type))
            if rewrite is None:
                _check_known(source, node)
                nodes.append(node)
                continue
            rewriter = _Rewriter(source, node)
            if graph is not source.graph:
                raise rewriter.refused("integer operators inside control flow are not represented")
            rewrite(rewriter)
            _keep_name(rewriter)
            nodes.extend(rewriter.nodes)
        if len(nodes) != len(graph.node):
            del graph.node[:]
            graph.node.extend(nodes)


def _keep_name(rewriter: _Rewriter) -> None:
    """Give the node that computes the name of the node that it stands for."""
    main = next((node for node in reversed(rewriter.nodes) if node.op_type not in _AROUND), rewriter.nodes[-1])
    main.name = rewriter.node.name


_AROUND = ("QuantizeLinear", "DequantizeLinear", "Cast")


_OPTIMISED = "ONNX Runtime's optimiser or quantiser writes it: give the model as it was exported, before these."


def _check_known(source: OnnxSource, node: NodeProto) -> None:
    if node.domain == MICROSOFT and node.op_type in DYNAMIC:
        raise LoadError(
            f"{source.where}: {node_label(node)} quantises its data as it runs (quantize_dynamic), which is not "
            "computed here.",
            source_node=node.name,
            hint=TRY_FLOATS,
            option="float_weights",
        )
    if node.domain:
        raise LoadError(
            f"{source.where}: {node_label(node)} is of domain '{node.domain}', which Dovetail does not know.",
            source_node=node.name,
            hint=_OPTIMISED if node.domain == MICROSOFT else "Export the model with standard ONNX operators.",
        )
    if not defs.has(node.op_type, OPSET, ""):
        raise LoadError(
            f"{source.where}: {node_label(node)}: ONNX has no such operator at opset {OPSET}.", source_node=node.name
        )


def _conv(rewriter: _Rewriter) -> None:
    data, weight = rewriter.dequantize(0, 1, 2), rewriter.dequantize(3, 4, 5, axis=0)
    inputs = [data, weight]
    if rewriter.name(8):
        scale = rewriter.value(1, "scale").reshape(-1) * rewriter.value(4, "weight scale").reshape(-1)
        bias = [rewriter.name(8), rewriter.constant("bias_scale", _one_or_many(scale.astype(np.float32)))]
        inputs.append(rewriter.add("DequantizeLinear", bias, axis=0))
    rewriter.quantize(rewriter.add("Conv", inputs, **rewriter.attributes()), 6, 7)


def _one_or_many(values: AnyArray) -> AnyArray:
    return values.reshape(()) if values.size == 1 else values


def _matmul(one: _Rewriter) -> None:
    product = one.add("MatMul", [one.dequantize(0, 1, 2, axis=-2), one.dequantize(3, 4, 5, axis=-1)])
    one.quantize(product, 6, 7)


def _gemm(rewriter: _Rewriter) -> None:
    channel = 0 if any(item.name == "transB" and item.i for item in rewriter.node.attribute) else 1
    inputs = [rewriter.dequantize(0, 1, 2), rewriter.dequantize(3, 4, 5, axis=channel)]
    if rewriter.name(6):
        alpha = next((item.f for item in rewriter.node.attribute if item.name == "alpha"), 1.0)
        scale = alpha * rewriter.value(1, "scale").reshape(-1) * rewriter.value(4, "weight scale").reshape(-1)
        bias = [rewriter.name(6), rewriter.constant("bias_scale", _one_or_many(scale.astype(np.float32)))]
        axis = len(rewriter.value(6, "bias").shape) - 1
        inputs.append(rewriter.add("DequantizeLinear", bias, axis=axis))
    if rewriter.name(7):
        rewriter.quantize(rewriter.add("Gemm", inputs, **rewriter.attributes()), 7, 8)
    else:
        rewriter.add("Gemm", inputs, rewriter.node.output[0], **rewriter.attributes())


def _binary(op: str) -> Callable[[_Rewriter], None]:
    def rewrite(one: _Rewriter) -> None:
        one.quantize(one.add(op, [one.dequantize(0, 1, 2), one.dequantize(3, 4, 5)]), 6, 7)

    return rewrite


def _unary(op: str) -> Callable[[_Rewriter], None]:
    def rewrite(rewriter: _Rewriter) -> None:
        if any(item.name == "channels_last" and item.i for item in rewriter.node.attribute):
            raise rewriter.refused("its channels come last")
        attributes = rewriter.attributes("channels_last")
        rewriter.quantize(rewriter.add(op, [rewriter.dequantize(0, 1, 2)], **attributes), 3, 4)

    return rewrite


def _softmax(rewriter: _Rewriter) -> None:
    attributes = {item.name: item.i for item in rewriter.node.attribute}
    old = attributes.get("opset", 0) < _ONE_AXIS
    if old and attributes.get("axis", 1) != -1:
        raise rewriter.refused("before opset 13 it runs over all axes from its own on")
    rewriter.quantize(rewriter.add("Softmax", [rewriter.dequantize(0, 1, 2)], axis=attributes.get("axis", -1)), 3, 4)


def _where(one: _Rewriter) -> None:
    parts = [one.dequantize(1, 2, 3), one.dequantize(4, 5, 6)]
    one.quantize(one.add("Where", [one.name(0), *parts]), 7, 8)


def _concat(one: _Rewriter) -> None:
    parts = [one.dequantize(index, index + 1, index + 2) for index in range(2, len(one.node.input), 3)]
    one.quantize(one.add("Concat", parts, **one.attributes()), 0, 1)


def _matmul_integer(rewriter: _Rewriter) -> None:
    sides: list[str] = []
    for index in (0, 1):
        side = rewriter.add("Cast", [rewriter.name(index)], to=TensorProto.INT32)
        if rewriter.name(2 + index):
            if index == 0 and not rewriter.has_scalar(2) and rewriter.value(2, "zero point").size > 1:
                raise rewriter.refused("it has one zero point per row")
            side = rewriter.add("Sub", [side, rewriter.add("Cast", [rewriter.name(2 + index)], to=TensorProto.INT32)])
        sides.append(side)
    rewriter.add("MatMul", sides, rewriter.node.output[0], **_weight_zeros(rewriter))


def _weight_zeros(rewriter: _Rewriter) -> dict[str, Any]:
    """Return the fact that tells which bytes constant int8 weights were: their zero points, one or one a column."""
    weight, zero = (rewriter.source.constants.get(rewriter.name(index)) for index in (1, 3))
    if weight is None or weight.dtype is not DType.I8 or (rewriter.name(3) and zero is None):
        return {}
    return {WEIGHT_ZEROS: [0] if zero is None else [int(value) for value in zero.array.reshape(-1)]}


def _conv_integer(rewriter: _Rewriter) -> None:
    weight = rewriter.value(1, "weight")
    if weight.ndim < 3 or not weight.size:
        raise rewriter.refused(f"its weight has shape {list(weight.shape)}")
    zero = rewriter.value(3, "weight zero point") if rewriter.name(3) else np.zeros((), dtype=weight.dtype)
    shape = (-1, *(1,) * (weight.ndim - 1)) if zero.size > 1 else ()
    centred = weight.astype(np.int64) - zero.astype(np.int64).reshape(shape)
    reach = int(np.abs(centred).reshape(len(centred), -1).sum(axis=1).max(initial=0)) * 255
    if reach > _EXACT_IN_FLOAT:
        raise rewriter.refused("its sums do not fit float32 exactly")
    data = rewriter.add("Cast", [rewriter.name(0)], to=TensorProto.FLOAT)
    if rewriter.name(2):
        data = rewriter.add("Sub", [data, rewriter.add("Cast", [rewriter.name(2)], to=TensorProto.FLOAT)])
    real = rewriter.add(
        "Conv", [data, rewriter.constant("weight", centred.astype(np.float32))], **rewriter.attributes()
    )
    rewriter.add("Cast", [real], rewriter.node.output[0], to=TensorProto.INT32)


def _dynamic_quantize(rewriter: _Rewriter) -> None:
    """Spell out ONNX's definition: the range always contains 0, the scale is its 255th part."""
    steps = rewriter.constant("steps", np.asarray(np.float32(255)))
    zero = rewriter.constant("zero", np.zeros((), dtype=np.float32))
    low = rewriter.add("Min", [rewriter.add("ReduceMin", [rewriter.name(0)], keepdims=0), zero])
    high = rewriter.add("Max", [rewriter.add("ReduceMax", [rewriter.name(0)], keepdims=0), zero])
    names = [*rewriter.node.output, "", ""]
    scale = rewriter.add("Div", [rewriter.add("Sub", [high, low]), steps], names[1])
    point = rewriter.add(
        "Round", [rewriter.add("Clip", [rewriter.add("Div", [rewriter.add("Neg", [low]), scale]), zero, steps])]
    )
    rewriter.add("Cast", [point], names[2], to=TensorProto.UINT8)
    ratio = rewriter.add("Round", [rewriter.add("Div", [rewriter.name(0), scale])])
    shifted = rewriter.add("Clip", [rewriter.add("Add", [ratio, point]), zero, steps])
    rewriter.add("Cast", [shifted], names[0], to=TensorProto.UINT8)


_REWRITES: dict[tuple[str, str], Callable[[_Rewriter], None]] = {
    ("", "QLinearConv"): _conv,
    ("", "QLinearMatMul"): _matmul,
    ("", "ConvInteger"): _conv_integer,
    ("", "MatMulInteger"): _matmul_integer,
    ("", "DynamicQuantizeLinear"): _dynamic_quantize,
    (MICROSOFT, "QGemm"): _gemm,
    (MICROSOFT, "QLinearAdd"): _binary("Add"),
    (MICROSOFT, "QLinearMul"): _binary("Mul"),
    (MICROSOFT, "QLinearAveragePool"): _unary("AveragePool"),
    (MICROSOFT, "QLinearGlobalAveragePool"): _unary("GlobalAveragePool"),
    (MICROSOFT, "QLinearSigmoid"): _unary("Sigmoid"),
    (MICROSOFT, "QLinearLeakyRelu"): _unary("LeakyRelu"),
    (MICROSOFT, "QLinearConcat"): _concat,
    (MICROSOFT, "QLinearSoftmax"): _softmax,
    (MICROSOFT, "QLinearWhere"): _where,
}
