"""What the inputs and outputs of an operator are for: the facts that quantisation and units rest on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.ir.graph import Graph
from dovetail.ir.node import Node


class Role(Enum):
    """What an input is for."""

    DATA = "data"
    WEIGHT = "weight"
    BIAS = "bias"
    CONTROL = "control"
    """Shapes, indices, axes, scales: never quantised."""


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """Where the weight and bias of an accumulating operator are, and which axis counts output channels."""

    weight: int
    bias: int | None
    channel_axis: int


_ACCUMULATING: dict[str, WeightLayout] = {
    "Conv": WeightLayout(1, 2, 0),
    "ConvTranspose": WeightLayout(1, 2, 1),
    "Gemm": WeightLayout(1, 2, 1),
    "MatMul": WeightLayout(1, None, -1),
}

PASS_THROUGH = frozenset(
    {
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "MaxPool",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "ReduceMax",
        "ReduceMin",
    }
)
"""Operators whose outputs hold only values of their first input: they share its scale."""

CLAMPS = frozenset({"Relu", "Clip"})
"""Activations that a preceding operator applies for free by clamping at its own output scale."""

CLAMP_HOSTS = frozenset(
    {
        "Conv",
        "ConvTranspose",
        "Gemm",
        "MatMul",
        "Add",
        "Sub",
        "Mul",
        "AveragePool",
        "GlobalAveragePool",
        "BatchNormalization",
        "InstanceNormalization",
        "LayerNormalization",
    }
)
"""Operators that can apply a clamp."""

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})

SHAPE_ONLY = frozenset({"Shape", "Size"})
"""Operators that read no element of their input: a tensor may reach them in any format."""


def weight_layout(graph: Graph, node: Node) -> WeightLayout | None:
    """Return where a node's constant weight is, or None when it has none."""
    layout = _ACCUMULATING.get(node.op) if not node.domain else None
    if layout is None or len(node.inputs) <= layout.weight:
        return None
    weight = node.inputs[layout.weight]
    if weight not in graph.constants:
        return None
    rank = len(graph.constants[weight].shape)
    axis = layout.channel_axis
    if node.op == "Gemm" and node.integer("transB", 0):
        axis = 0
    if node.op == "ConvTranspose" and node.integer("group", 1) != 1:
        # The output channels of a grouped transposed convolution lie on two axes; one scale per tensor is exact.
        axis = -rank - 1
    if node.op == "MatMul" and rank == 1:
        axis = -rank - 1
    channel_axis = axis + rank if axis < 0 else axis
    return WeightLayout(layout.weight, layout.bias, channel_axis)


def joins_parts(graph: Graph, node: Node) -> bool:
    """Tell whether a Concat joins the parts of one node: all have one scale, whatever they hold."""
    makers = [graph.producers.get(name) for name in node.inputs]
    return node.op == "Concat" and all(
        item is not None and item.op != "Split" and set(item.origin) <= set(node.origin) for item in makers
    )


def input_roles(graph: Graph, node: Node) -> tuple[Role, ...]:
    """Return the role of every input of a node."""
    layout = weight_layout(graph, node)
    roles: list[Role] = []
    for index, tensor in enumerate(node.inputs):
        if not tensor or not graph.types[tensor].holds_reals or _is_control(node, index):
            roles.append(Role.CONTROL)
        elif layout is not None and index == layout.weight:
            roles.append(Role.WEIGHT)
        elif layout is not None and index == layout.bias and tensor in graph.constants:
            roles.append(Role.BIAS)
        else:
            roles.append(Role.DATA)
    return tuple(roles)


_CONTROL_INPUTS: dict[str, tuple[int, ...]] = {
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Clip": (1, 2),
    "Dropout": (1, 2),
    "OneHot": (1,),
    "BatchNormalization": (1, 2, 3, 4),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "Pad": (1, 2, 3),
    # A stored exponent of 2 is 2.0000001: every negative base would give NaN.
    "Pow": (1,),
    "PRelu": (),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "LSTM": (1, 2, 3, 4, 7),
    "GRU": (1, 2, 3, 4),
    "RNN": (1, 2, 3, 4),
    "RoiAlign": (1, 2),
    "MaxRoiPool": (1,),
    "CumSum": (1,),
}


def _is_control(node: Node, index: int) -> bool:
    return node.op in SHAPE_ONLY or index in _CONTROL_INPUTS.get(node.op, ())


def is_pass_through(graph: Graph, node: Node) -> bool:
    """Tell whether a node only moves values of its first input, so that its outputs share that input's scale."""
    if node.domain or not node.inputs or node.inputs[0] in graph.constants or not node.inputs[0]:
        return False
    return _moves_values(graph, node) and graph.types[node.inputs[0]].holds_reals


def _moves_values(graph: Graph, node: Node) -> bool:
    if node.op == "Pad":
        # A zero is a value of every quantised tensor, so padding with it needs no scale of its own.
        return node.text("mode", "constant") != "constant" or _pads_with_zero(graph, node)
    if node.op == "Resize":
        return node.text("mode", "nearest") == "nearest"
    return node.op in PASS_THROUGH


def _pads_with_zero(graph: Graph, node: Node) -> bool:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return True
    value = graph.constants.get(node.inputs[2])
    return value is not None and not value.any()
