"""What the writer of TFLite models knows to say: convolutions and what stands around them, in float32 and 8 bits."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.backend.arithmetic import TFLITE
from dovetail.backend.target import Engine, OperatorRule, TargetProfile
from dovetail.backends.litert.delegates import CPU, Delegate
from dovetail.ir import Graph, Node
from dovetail.ir.precision import Precision

_FLOAT = frozenset({Precision.FP32})
_BOTH = frozenset({Precision.FP32, Precision.I8PC})


@dataclass(frozen=True, slots=True)
class Sayable:
    """Refuse attributes that TFLite's operators do not have."""

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """Return why the node is refused, or None."""
        if any(graph.types[name].static_shape is None for name in (*node.inputs, *node.outputs) if name):
            return "a shape that is not static"
        if any(0 in (graph.types[name].static_shape or ()) for name in (*node.inputs, *node.outputs) if name):
            return "an empty tensor"
        match node.op:
            case "Conv":
                return _conv(graph, node)
            case "MaxPool" | "AveragePool":
                return _pool(graph, node)
            case "Gemm":
                return _gemm(graph, node)
            case "Softmax":
                return _last_axis(graph, node)
            case "Reshape":
                return None if node.inputs[1] in graph.constants else "the shape is computed"
        return None


def _conv(graph: Graph, node: Node) -> str | None:
    data, weight = graph.types[node.inputs[0]].static_shape, graph.types[node.inputs[1]].static_shape
    if data is None or weight is None or len(data) != 4:
        return "only convolutions over images"
    if any(name not in graph.constants for name in node.inputs[1:] if name):
        return "weights and bias have to be constants"
    group = node.integer("group", 1)
    if group not in (1, data[1]):
        return f"{group} groups over {data[1]} channels: only one, or one for each channel"
    if node.text("auto_pad", "NOTSET") != "NOTSET":
        return "auto_pad"
    return None


def _pool(graph: Graph, node: Node) -> str | None:
    data = graph.types[node.inputs[0]].static_shape
    if data is None or len(data) != 4:
        return "only pooling over images"
    if any(node.integers("pads", (0,) * 4)) or node.integer("ceil_mode", 0) or len(node.outputs) > 1:
        return "padding, rounded-up sizes and indices"
    if any(item != 1 for item in node.integers("dilations", (1, 1))) or node.text("auto_pad", "NOTSET") != "NOTSET":
        return "dilations or auto_pad"
    return None


def _gemm(graph: Graph, node: Node) -> str | None:
    if any(name not in graph.constants for name in node.inputs[1:] if name):
        return "weights and bias have to be constants"
    if node.integer("transA", 0) or node.number("alpha", 1.0) != 1.0 or node.number("beta", 1.0) != 1.0:
        return "transA, alpha and beta"
    if len(node.inputs) > 2 and node.inputs[2] and graph.types[node.inputs[2]].rank != 1:
        return "the bias has to be a vector"
    return None


def _last_axis(graph: Graph, node: Node) -> str | None:
    rank = graph.types[node.inputs[0]].rank or 1
    return None if node.integer("axis", -1) in (-1, rank - 1) else "only over the last axis"


def target_of(delegate: Delegate) -> TargetProfile:
    """Return the target of a delegate: what it takes of this is found when a partition is compiled."""
    engine = Engine.CPU if delegate.name == CPU else Engine.NN
    both = frozenset({"Conv", "Relu", "Add", "MaxPool", "Reshape", "Transpose"})
    rules = (
        OperatorRule(both, _BOTH, engine),
        OperatorRule(frozenset({"QuantizeLinear", "DequantizeLinear"}), _BOTH, engine),
        OperatorRule(frozenset({"Mul", "Sub", "Gemm", "Sigmoid", "Tanh", "Softmax"}), _FLOAT, engine),
        OperatorRule(frozenset({"AveragePool", "GlobalAveragePool", "Concat"}), _FLOAT, engine),
    )
    title = "LiteRT's own kernels" if delegate.name == CPU else f"LiteRT delegate {delegate.library}"
    return TargetProfile(
        name=f"litert:{delegate.name}",
        title=title,
        precisions=(Precision.I8PC, Precision.FP32),
        rules=rules,
        arithmetic=TFLITE,
        always=(Sayable(),),
    )
