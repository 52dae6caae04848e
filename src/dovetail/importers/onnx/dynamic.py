"""Take layers that ONNX Runtime's `quantize_dynamic` made as the float layers that their weights stand for.

Their weights are 8-bit constants, their data are quantised as the model runs, by each input's own range. That is
computed exactly where it is asked for (`foreign`); no NPU does it, and a plan starts from reals: `x @ ((w - z) * s)`.
Source: ONNX's MatMulInteger and ConvInteger, ONNX Runtime's DynamicQuantizeLSTM and DynamicQuantizeMatMul.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, helper

from dovetail.importers.onnx.reader import OnnxSource
from dovetail.importers.onnx.structure import free_names
from dovetail.importers.onnx.tensors import Stored
from dovetail.ir import AnyArray, DType

MICROSOFT = "com.microsoft"
DYNAMIC = ("DynamicQuantizeLSTM", "DynamicQuantizeMatMul")
"""ONNX Runtime's operators that quantise their data as they run."""

TRY_FLOATS = "Start from the float model; or take its weights as floats: its data then keep their bits."


def take_as_floats(source: OnnxSource) -> None:
    """Rewrite the layers of the main graph in place; what is spelt otherwise stays as it is computed."""
    floats = _Floats(source)
    nodes = [floats.node(node) for node in source.graph.node]
    nodes = [node for node in nodes if not floats.gone.intersection(node.output)]
    # What made scales goes with those that read them: first the products of scales, then what quantised.
    for op in ("Mul", "DynamicQuantizeLinear"):
        read = floats.ends.union(*(free_names(node) for node in nodes))
        nodes = [node for node in nodes if node.op_type != op or read.intersection(node.output)]
    del source.graph.node[:]
    source.graph.node.extend(nodes)


@dataclass(slots=True)
class _Floats:
    """Find the float node that stands where a layer's product becomes real."""

    source: OnnxSource
    gone: set[str] = field(default_factory=set)
    """Tensors between that nothing makes any more."""
    ends: set[str] = field(init=False)
    makers: dict[str, NodeProto] = field(init=False)
    readers: dict[str, list[NodeProto]] = field(init=False)

    def __post_init__(self) -> None:
        nodes = self.source.graph.node
        self.ends = {value.name for value in self.source.graph.output}
        self.makers = {name: node for node in nodes for name in node.output if name}
        self.readers = {}
        for node in nodes:
            for name in free_names(node):
                self.readers.setdefault(name, []).append(node)

    def node(self, node: NodeProto) -> NodeProto:
        """Return the float node for a node, or the node itself."""
        if node.domain == MICROSOFT and node.op_type == "DynamicQuantizeLSTM":
            return self._lstm(node) or node
        if node.domain == MICROSOFT and node.op_type == "DynamicQuantizeMatMul":
            return self._matmul(node) or node
        if node.op_type == "Mul" and not node.domain:
            return self._scaled(node) or node
        return node

    def _scaled(self, node: NodeProto) -> NodeProto | None:
        """Return the product of reals where a node scales an integer product: `Mul(Cast(MatMulInteger), Mul(s, w))`."""
        for place in (0, 1):
            cast, scales = (self.makers.get(name) for name in (node.input[place], node.input[1 - place]))
            product = None if cast is None or cast.op_type != "Cast" else self.makers.get(cast.input[0])
            if cast is None or product is None or product.op_type not in ("MatMulInteger", "ConvInteger"):
                continue
            quantizer = self.makers.get(product.input[0])
            scale = self._weight_scale(scales, quantizer)
            weight = self._weight(product.input[1], _name(product, 3), scale, -1 if _is_matmul(product) else 0)
            between = (cast.output[0], product.output[0])
            alone = not self.ends.intersection(between) and all(len(self.readers[name]) == 1 for name in between)
            if quantizer is None or weight is None or not alone or _name(product, 2) not in ("", quantizer.output[2]):
                return None
            self.gone.update(between)
            stored = self._store(f"{product.name}/weight", weight)
            made = helper.make_node(
                "MatMul" if _is_matmul(product) else "Conv", [quantizer.input[0], stored], node.output, product.name
            )
            made.attribute.extend(product.attribute)
            return made
        return None

    def _weight_scale(self, scales: NodeProto | None, quantizer: NodeProto | None) -> AnyArray | None:
        """Return the scale of the weights that is multiplied with the one of the data."""
        if (
            scales is None
            or quantizer is None
            or scales.op_type != "Mul"
            or quantizer.op_type != "DynamicQuantizeLinear"
        ):
            return None
        names = list(scales.input)
        if quantizer.output[1] not in names:
            return None
        names.remove(quantizer.output[1])
        return self._constant(names[0])

    def _weight(self, name: str, zero: str, scale: AnyArray | None, axis: int) -> AnyArray | None:
        """Return weights as reals; scales and zero points are one, or one for each place along an axis."""
        stored, point = self._constant(name), self._constant(zero) if zero else np.zeros(1)
        if stored is None or point is None or scale is None or stored.ndim < 2:
            return None
        shape = [1] * stored.ndim
        shape[axis] = -1
        if not {point.size, scale.size} <= {1, stored.shape[axis]} or (axis == 0 and 1 < scale.size == scale.shape[-1]):
            return None
        real = (stored.astype(np.float32) - point.astype(np.float32).reshape(shape)) * scale.reshape(shape)
        return np.asarray(real, np.float32)

    def _matmul(self, node: NodeProto) -> NodeProto | None:
        weight = self._weight(_name(node, 1), _name(node, 3), self._constant(_name(node, 2)), -1)
        if weight is None or _name(node, 4):
            return None
        stored = self._store(f"{node.name}/weight", weight)
        return helper.make_node("MatMul", [node.input[0], stored], node.output, node.name)

    def _lstm(self, node: NodeProto) -> NodeProto | None:
        first, again = self._gates(node, 1, 8), self._gates(node, 2, 10)
        if first is None or again is None:
            return None
        names = [self._store(f"{node.name}/{what}", value) for what, value in (("weight", first), ("recurrent", again))]
        made = helper.make_node("LSTM", [node.input[0], *names, *node.input[3:8]], node.output, node.name)
        made.attribute.extend(node.attribute)
        return made

    def _gates(self, node: NodeProto, place: int, scale_at: int) -> AnyArray | None:
        """Return weights `[directions, 4 * hidden, inputs]` of ones that lie turned, scaled by direction or gate."""
        names = (_name(node, place), _name(node, scale_at), _name(node, scale_at + 1))
        stored, scale, zero = (self._constant(name) for name in names)
        if stored is None or scale is None or zero is None or stored.ndim != 3:
            return None
        directions, _, gates = stored.shape
        if any(value.shape not in ((directions,), (directions, gates)) for value in (scale, zero)):
            return None
        spread = [value.astype(np.float32).reshape(directions, 1, -1) for value in (scale, zero)]
        real = (stored.astype(np.float32) - spread[1]) * spread[0]
        return np.asarray(real.transpose(0, 2, 1), np.float32)

    def _constant(self, name: str) -> AnyArray | None:
        stored = self.source.constants.get(name)
        return None if stored is None else stored.array

    def _store(self, name: str, value: AnyArray) -> str:
        self.source.constants[name] = Stored(DType.F32, np.ascontiguousarray(value))
        return name


def _is_matmul(node: NodeProto) -> bool:
    return node.op_type == "MatMulInteger"


def _name(node: NodeProto, index: int) -> str:
    return node.input[index] if index < len(node.input) else ""


def count_dynamic(nodes: Iterable[NodeProto]) -> int:
    """Return how many operators quantise data as they run."""
    return sum(node.op_type == "DynamicQuantizeLinear" or node.op_type in DYNAMIC for node in nodes)
