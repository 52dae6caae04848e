"""How each kind of operator is written with TIM-VX: its class there, and what its constructor takes after the graph.

The blocks of integers and floats are those that the shim takes (`native/vsi/ovxlib.cpp` has their layouts).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.backends.verisilicon.program import ProgramOperator
from dovetail.backends.verisilicon.project.spelling import list_literal, real_literal

Arguments = Callable[[ProgramOperator], Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class TimRow:
    """The class of an operator, or its choice by the first integer; `arguments` gives None where it has none."""

    classes: tuple[str, ...]
    arguments: Arguments = lambda _: ()

    def name(self, operator: ProgramOperator) -> str:
        """Return the class that does an operator."""
        return self.classes[operator.ints[0] if len(self.classes) > 1 else 0]


def _list(kind: str, values: Sequence[int]) -> str:
    return f"{kind}{list_literal(values)}"


def _flag(value: int) -> str:
    return "true" if value else "false"


def _ints(*places: int) -> Arguments:
    return lambda op: [str(op.ints[place]) for place in places]


def _floats(count: int) -> Arguments:
    return lambda op: [real_literal(value) for value in op.floats[:count]]


def _all(kind: str) -> Arguments:
    return lambda op: [_list(kind, op.ints)]


def _convolution(op: ProgramOperator) -> list[str]:
    i = op.ints
    lists = [_list("Pair", i[0:2]), _list("Pair", i[2:4]), _list("Pair", i[8:10]), _list("Four", i[4:8])]
    return [str(i[12]), "vx::PadType::AUTO", *lists, str(i[11])]


def _grouped(op: ProgramOperator) -> list[str]:
    i = op.ints
    return [_list("Four", i[4:8]), _list("Pair", i[2:4]), _list("Pair", i[8:10]), str(i[10])]


def _transposed(op: ProgramOperator) -> list[str]:
    i = op.ints
    lists = [_list("Pair", i[0:2]), _list("Pair", i[2:4]), _list("Pair", i[8:10]), _list("Four", i[4:8])]
    return [str(i[11]), "vx::PadType::AUTO", *lists, f"{i[10]}u"]


_POOLS = ("AVG_ANDROID", "AVG", "MAX")
_PAD_MODES = ("CONSTANT", "EDGE", "SYMMETRIC", "REFLECT")


def _pool(op: ProgramOperator) -> list[str]:
    i = op.ints
    lists = [_list("Four", i[5:9]), _list("Pair", i[1:3]), _list("Pair", i[3:5])]
    return [f"vx::PoolType::{_POOLS[i[0]]}", *lists, f"vx::RoundType::{'CEILING' if i[9] else 'FLOOR'}"]


def _strided_slice(op: ProgramOperator) -> list[str]:
    rank = len(op.ints) // 3
    return [*(_list("Axes", op.ints[rank * part : rank * (part + 1)]) for part in range(3)), "0", "0", "0"]


def _slice(op: ProgramOperator) -> list[str]:
    rank = len(op.ints) // 2
    return [f"{rank}u", _list("Axes", op.ints[:rank]), _list("Axes", op.ints[rank:])]


def _pad(op: ProgramOperator) -> list[str]:
    rank = (len(op.ints) - 1) // 2
    sizes = [_list("Words", op.ints[1 : 1 + rank]), _list("Words", op.ints[1 + rank :])]
    return [*sizes, real_literal(op.floats[0]), f"ops::PadV2::PAD_MODE_{_PAD_MODES[op.ints[0]]}"]


def _resize(op: ProgramOperator) -> list[str]:
    mode, width, height, corners, centres = op.ints
    kind = f"vx::ResizeType::{'BILINEAR' if mode else 'NEAREST_NEIGHBOR'}"
    return [kind, "0.0f", _flag(corners), _flag(centres), str(height), str(width)]


def _depth_to_space(op: ProgramOperator) -> list[str]:
    return [str(op.ints[0]), f"ops::DepthToSpace::{'CRD' if op.ints[1] else 'DCR'}_mode"]


def _block(op: ProgramOperator) -> list[str]:
    return [f"std::vector<int>{{{op.ints[0]}, {op.ints[0]}}}"]


def _reduce(op: ProgramOperator) -> list[str]:
    return [_list("Axes", op.ints[2:]), _flag(op.ints[1])]


def _one_hot(op: ProgramOperator) -> list[str]:
    return [str(op.ints[0]), real_literal(op.floats[0]), real_literal(op.floats[1]), str(op.ints[1])]


def _lrn(op: ProgramOperator) -> list[str]:
    return [f"{op.ints[0]}u", *(real_literal(value) for value in op.floats), str(op.ints[1])]


def _joined(op: ProgramOperator) -> list[str]:
    return [f"{op.ints[0]}u", str(len(op.inputs))]


_PLAIN = {
    "abs": "Abs",
    "add": "Add",
    "cast": "Cast",
    "ceil": "Ceil",
    "data_convert": "DataConvert",
    "div": "Div",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "gather_nd": "GatherNd",
    "hard_swish": "HardSwish",
    "log": "Log",
    "logical_not": "LogicalNot",
    "maximum": "Maximum",
    "minimum": "Minimum",
    "mish": "Mish",
    "mul": "Multiply",
    "neg": "Neg",
    "pow": "Pow",
    "reciprocal": "Rcp",
    "relu": "Relu",
    "relu1": "Relu1",
    "relu6": "Relu6",
    "round": "Round",
    "rsqrt": "Rsqrt",
    "select": "Select",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "softplus": "SoftRelu",
    "softsign": "SoftSign",
    "sqrt": "Sqrt",
    "square": "Square",
    "sub": "Sub",
    "tanh": "Tanh",
}

TIM_ROWS: Mapping[str, TimRow] = {
    **{kind: TimRow((name,)) for kind, name in _PLAIN.items()},
    "argmax": TimRow(("ArgMax",), _ints(0)),
    "argmin": TimRow(("ArgMin",), _ints(0)),
    "batch_norm": TimRow(("BatchNorm",), _floats(1)),
    "celu": TimRow(("Celu",), _floats(1)),
    "clip": TimRow(("Clip",), _floats(2)),
    "compare": TimRow(("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "NotEqual", "Equal")),
    "concat": TimRow(("Concat",), _joined),
    "conv2d": TimRow(("Conv2d",), _convolution),
    "cumsum": TimRow(("CumSum",), _ints(0, 1, 2)),
    "deconv2d": TimRow(("DeConv2d",), _transposed),
    "depth_to_space": TimRow(("DepthToSpace",), _depth_to_space),
    "elu": TimRow(("Elu",), _floats(1)),
    "expand": TimRow(("Broadcast",), _all("Axes")),
    "fully_connected": TimRow(("FullyConnected",), lambda op: [f"{op.ints[1]}u", f"{op.ints[0]}u"]),
    "gather": TimRow(("Gather",), _ints(0, 1)),
    "gather_elements": TimRow(("GatherElements",), _ints(0)),
    "gelu": TimRow(("Gelu",), lambda op: [_flag(op.ints[0])]),
    "grouped_conv2d": TimRow(("GroupedConv2d",), _grouped),
    "hard_sigmoid": TimRow(("HardSigmoid",), _floats(2)),
    "instance_norm": TimRow(("InstanceNormalization",), _floats(1)),
    "l2_norm": TimRow(("L2Normalization",), _ints(0)),
    "layer_norm": TimRow(("LayerNormalization",), lambda op: [str(op.ints[0]), real_literal(op.floats[0])]),
    "leaky_relu": TimRow(("LeakyRelu",), _floats(1)),
    "linear": TimRow(("Linear",), _floats(2)),
    "log_softmax": TimRow(("LogSoftmax",), lambda op: [str(op.ints[0]), real_literal(op.floats[0])]),
    # There is no exclusive or: truth values that differ are.
    "logical": TimRow(("LogicalAnd", "LogicalOr", "NotEqual")),
    "lrn": TimRow(("LRN",), _lrn),
    "matmul": TimRow(("Matmul",), lambda op: [_flag(op.ints[0]), _flag(op.ints[1])]),
    "mod": TimRow(("Mod",), _ints(0)),
    "one_hot": TimRow(("OneHot",), _one_hot),
    "pad": TimRow(("PadV2",), _pad),
    "pool2d": TimRow(("Pool2d",), _pool),
    "prelu": TimRow(("Prelu",), _ints(0)),
    "reduce": TimRow(tuple(f"Reduce{name}" for name in ("Mean", "Max", "Min", "Sum", "Prod", "All", "Any")), _reduce),
    "reshape": TimRow(("Reshape",), _all("Words")),
    "resize": TimRow(("Resize",), _resize),
    "reverse": TimRow(("Reverse",), _all("Axes")),
    "scatter_nd": TimRow(("ScatterND",), _all("Words")),
    "selu": TimRow(("Selu",), _floats(2)),
    "shuffle_channel": TimRow(("ShuffleChannel",), _ints(0, 1)),
    "slice": TimRow(("Slice",), _slice),
    "softmax": TimRow(("Softmax",), lambda op: [real_literal(op.floats[0]), str(op.ints[0])]),
    "space_to_depth": TimRow(("SpaceToDepth",), _block),
    "split": TimRow(("Split",), lambda op: [f"{op.ints[0]}u", _list("Words", op.ints[1:])]),
    "stack": TimRow(("Stack",), _joined),
    "strided_slice": TimRow(("StridedSlice",), _strided_slice),
    "swish": TimRow(("Swish",), lambda op: [] if op.floats[0] == 1.0 else None),
    "tile": TimRow(("Tile",), _all("Axes")),
    "topk": TimRow(("Topk",), lambda op: [f"{op.ints[0]}u", str(op.ints[1])]),
    "transpose": TimRow(("Transpose",), _all("Words")),
    "unstack": TimRow(("Unstack",), lambda op: [str(op.ints[0]), f"{len(op.outputs)}u"]),
}
"""By the kind of a program's operator; TIM-VX has no form of the others."""
