"""How each kind of operator is written with ovxlib's C interface: its name there, and its parameters.

The blocks of integers and floats are those that the shim takes (`native/vsi/ovxlib.cpp` has their layouts).
A line may use `p` (the operator's parameters) and `node`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.backends.verisilicon.project.spelling import list_literal, real_literal

Ints = Sequence[int]
Floats = Sequence[float]
Lines = Callable[[Ints, Floats], list[str]]


@dataclass(frozen=True, slots=True)
class OvxRow:
    """An operator's constant and the member of its parameters; `lines` sets them."""

    op: str
    member: str = ""
    lines: Lines = lambda _ints, _floats: []


def _set(**fields: str) -> Lines:
    """Return lines `p.field = value`; `i0` stands for the first integer, `f0` for the first float, `b0` for a bool."""

    def make(ints: Ints, floats: Floats) -> list[str]:
        return [f"p.{name} = {_value(spec, ints, floats)};" for name, spec in fields.items()]

    return make


def _value(spec: str, ints: Ints, floats: Floats) -> str:
    kind, place = spec[:1], spec[1:]
    if not place.isdigit():
        return spec
    if kind == "f":
        return real_literal(floats[int(place)])
    value = ints[int(place)]
    return ("TRUE" if value else "FALSE") if kind == "b" else str(value)


def _static(name: str, kind: str, values: Sequence[int], count: str) -> list[str]:
    """Return lines that keep a list for as long as ovxlib points at it."""
    return [f"static {kind} {name}[] = {list_literal(values)};", f"p.{name} = {name};", f"p.{count} = {len(values)};"]


def _pairs(name: str, values: Sequence[int]) -> list[str]:
    return [f"p.{name}[{index}] = {value};" for index, value in enumerate(values)]


def _window(ints: Ints) -> list[str]:
    return [
        *_pairs("ksize", ints[0:2]),
        *_pairs("stride", ints[2:4]),
        *_pairs("pad", ints[4:8]),
        "p.pad_type = VSI_NN_PAD_AUTO;",
    ]


def _convolution(ints: Ints, _: Floats) -> list[str]:
    return [
        *_window(ints),
        *_pairs("dilation", ints[8:10]),
        f"p.group = {ints[10]};",
        f"p.multiplier = {ints[11]};",
        f"p.weights = {ints[12]};",
        "p.pad_mode = VSI_NN_PAD_MODE_CONSTANT;",
        "saturate(node);",
    ]


def _transposed(ints: Ints, _: Floats) -> list[str]:
    extra = _pairs("output_padding", ints[8:10])
    return [*_window(ints), *extra, f"p.group = {ints[10]};", f"p.weights = {ints[11]};"]


def _matmul(ints: Ints, _: Floats) -> list[str]:
    turned = [f"p.transpose[{side}] = {'vx_true_e' if ints[side] else 'vx_false_e'};" for side in (0, 1)]
    return [*turned, "p.adjoint[0] = p.adjoint[1] = vx_false_e;"]


def _scaled(_: Ints, __: Floats) -> list[str]:
    return ["p.scale = 1.0f;", "saturate(node);"]


_POOLS = tuple(f"VX_CONVOLUTIONAL_NETWORK_POOLING_{name}" for name in ("AVG_ANDROID", "AVG", "MAX"))


def _pool(ints: Ints, _: Floats) -> list[str]:
    sizes = f"VX_CONVOLUTIONAL_NETWORK_DS_SIZE_ROUNDING_{'CEILING' if ints[9] else 'FLOOR'}"
    return [
        f"p.type = {_POOLS[ints[0]]};",
        *_window(ints[1:]),
        f"p.round_type = {'VSI_NN_ROUND_CEIL' if ints[9] else 'VSI_NN_ROUND_FLOOR'};",
        f"saturate(node, {sizes});",
    ]


_REDUCTIONS = ("MEAN", "MAX", "MIN", "SUM", "PROD", "ALL", "ANY")
_RELATIONS = ("GREAT", "GREAT_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL", "EQUAL")
_CONNECTIVES = ("AND", "OR", "XOR")
_PAD_MODES = ("CONSTANT", "REPLICATE", "SYMMETRIC", "REFLECT")


def _reduce(ints: Ints, _: Floats) -> list[str]:
    return [
        f"p.type = VSI_NN_REDUCE_{_REDUCTIONS[ints[0]]};",
        f"p.keep_dim = {'vx_true_e' if ints[1] else 'vx_false_e'};",
        *_static("axis", "int32_t", ints[2:], "axis_num"),
    ]


def _pad(ints: Ints, floats: Floats) -> list[str]:
    rank = (len(ints) - 1) // 2
    return [
        f"p.mode = VSI_NN_PAD_MODE_{_PAD_MODES[ints[0]]};",
        f"static uint32_t front_size[] = {list_literal(ints[1 : 1 + rank])};",
        f"static uint32_t back_size[] = {list_literal(ints[1 + rank :])};",
        "p.front_size = front_size;",
        "p.back_size = back_size;",
        f"p.dim_num = {rank};",
        f"p.const_val = {real_literal(floats[0])};",
    ]


def _strided_slice(ints: Ints, _: Floats) -> list[str]:
    rank = len(ints) // 3
    names = ("begin_dims", "end_dims", "stride_dims")
    lines: list[str] = []
    for index, name in enumerate(names):
        lines += _static(name, "int32_t", ints[rank * index : rank * (index + 1)], f"{name}_num")
    return [*lines, "p.begin_mask = 0;", "p.end_mask = 0;", "p.shrink_axis_mask = 0;", "p.new_axis_mask = 0;"]


def _slice(ints: Ints, _: Floats) -> list[str]:
    rank = len(ints) // 2
    return [
        f"static uint32_t start[] = {list_literal(ints[:rank])};",
        f"static uint32_t length[] = {list_literal(ints[rank:])};",
        f"p.dims = {rank};",
        "p.start = start;",
        "p.length = length;",
    ]


def _expand(ints: Ints, _: Floats) -> list[str]:
    return [*_static("shape", "uint32_t", ints, "dim_num"), "p.dimensions = nullptr;", "p.dimensions_num = 0;"]


def _resize(ints: Ints, _: Floats) -> list[str]:
    return [
        f"p.type = {'VSI_NN_INTERPOLATION_BILINEAR' if ints[0] else 'VSI_NN_INTERPOLATION_NEAREST_NEIGHBOR'};",
        *_pairs("size", ints[1:3]),
        "p.factor = 0.0f;",
        *_set(align_corners="b3", half_pixel_centers="b4", layout="VSI_NN_RESIZE_LAYOUT_NCHW")(ints, ()),
    ]


def _depth_to_space(ints: Ints, _: Floats) -> list[str]:
    return [f"p.block_size = {ints[0]};", f"p.mode = VSI_NN_DEPTH2SPACE_{'CRD' if ints[1] else 'DCR'};"]


def _listed(name: str, count: str, kind: str = "uint32_t", more: Lines | None = None, skip: int = 0) -> Lines:
    def make(ints: Ints, floats: Floats) -> list[str]:
        return [*_static(name, kind, ints[skip:], count), *(more(ints, floats) if more else [])]

    return make


_PLAIN = {
    "abs": "ABS",
    "acosh": "ACOSH",
    "add": "ADD",
    "atan": "ATAN",
    "atanh": "ATANH",
    "cast": "CAST",
    "ceil": "CEIL",
    "cos": "COS",
    "data_convert": "DATACONVERT",
    "erf": "ERF",
    "exp": "EXP",
    "floor": "FLOOR",
    "log": "LOG",
    "logical_not": "LOGICAL_NOT",
    "maximum": "MAXIMUM",
    "minimum": "MINIMUM",
    "mish": "MISH",
    "neg": "NEG",
    "pow": "POW",
    "reciprocal": "RCP",
    "relu": "RELU",
    "relu1": "RELU1",
    "relu6": "RELU6",
    "round": "ROUND",
    "rsqrt": "RSQRT",
    "select": "SELECT",
    "sigmoid": "SIGMOID",
    "sign": "SIGN",
    "sin": "SIN",
    "softplus": "SOFTRELU",
    "softsign": "SOFTSIGN",
    "sqrt": "SQRT",
    "square": "SQUARE",
    "sub": "SUBTRACT",
    "tan": "TAN",
}

OVX_ROWS: Mapping[str, OvxRow] = {
    **{kind: OvxRow(op) for kind, op in _PLAIN.items()},
    "argmax": OvxRow("ARGMAX", "argmax", _set(axis="i0", keep_dims="b1")),
    "argmin": OvxRow("ARGMIN", "argmin", _set(axis="i0", keep_dims="b1")),
    "batch_norm": OvxRow("BATCH_NORM", "batch_norm", _set(eps="f0")),
    "celu": OvxRow("CELU", "celu", _set(alpha="f0")),
    "clip": OvxRow("CLIP", "clip", _set(min="f0", max="f1")),
    "compare": OvxRow(
        "RELATIONAL_OPS", "relational_ops", lambda i, _: [f"p.op = VSI_NN_RELATIONAL_OPS_{_RELATIONS[i[0]]};"]
    ),
    "concat": OvxRow("CONCAT", "concat", _set(axis="i0")),
    "conv2d": OvxRow("CONV2D", "conv2d", _convolution),
    "cumsum": OvxRow("CUMSUM", "cumsum", _set(axis="i0", exclusive="b1", reverse="b2")),
    "deconv2d": OvxRow("DECONVOLUTION", "deconv", _transposed),
    "depth_to_space": OvxRow("DEPTH2SPACE", "depth2space", _depth_to_space),
    "div": OvxRow("DIVIDE", "divide", _scaled),
    "elu": OvxRow("ELU", "elu", _set(alpha="f0")),
    "expand": OvxRow("EXPAND_BROADCAST", "expand_broadcast", _expand),
    "fully_connected": OvxRow("FCL2", "fcl", _set(weights="i0", axis="i1")),
    "gather": OvxRow("GATHER", "gather", _set(axis="i0", batch_dims="i1")),
    "gather_elements": OvxRow("GATHER_ELEMENTS", "gather_elements", _set(axis="i0")),
    "gather_nd": OvxRow("GATHER_ND", "gather_nd", _set(batch_dims="i0")),
    "gelu": OvxRow("GELU", "gelu", _set(approximate="b0")),
    "group_norm": OvxRow("GROUP_NORM", "groupnorm", _set(group_num="i0", eps="f0")),
    "grouped_conv2d": OvxRow("GROUPED_CONV2D", "grouped_conv2d", _convolution),
    "hard_sigmoid": OvxRow("HARD_SIGMOID", "hard_sigmoid", _set(alpha="f0", beta="f1")),
    "hard_swish": OvxRow("SWISH", "swish", _set(type="VSI_NN_HSWISH", beta="1.0f")),
    "instance_norm": OvxRow("INSTANCE_NORM", "instancenorm", _listed("axis", "axis_num", "int32_t", _set(eps="f0"))),
    "l2_norm": OvxRow("L2_NORMALIZE", "l2_normalize", _set(axis="i0")),
    "layer_norm": OvxRow("LAYER_NORM", "layernorm", _set(axis="i0", eps="f0")),
    "leaky_relu": OvxRow("LEAKY_RELU", "activation", _set(leaky_ratio="f0")),
    "linear": OvxRow("LINEAR", "linear", _set(a="f0", b="f1")),
    "log_softmax": OvxRow("LOG_SOFTMAX", "log_softmax", _set(axis="i0", betaValue="f0")),
    "logical": OvxRow("LOGICAL_OPS", "logical_ops", lambda i, _: [f"p.op = VSI_NN_LOGICAL_{_CONNECTIVES[i[0]]};"]),
    "lrn": OvxRow(
        "LRN2",
        "lrn",
        _set(type="VX_CONVOLUTIONAL_NETWORK_NORM_ACROSS_MAPS", size="i0", axis="i1", alpha="f0", beta="f1", bias="f2"),
    ),
    "matmul": OvxRow("MATRIXMUL", "matrixmul", _matmul),
    "mod": OvxRow("MOD", "mod", _set(fmod="i0")),
    "mul": OvxRow("MULTIPLY", "multiply", _scaled),
    "one_hot": OvxRow("ONE_HOT", "one_hot", _set(depth="i0", axis="i1", on_value="f0", off_value="f1")),
    "pad": OvxRow("PAD2", "pad2", _pad),
    "pool2d": OvxRow("POOL", "pool", _pool),
    "prelu": OvxRow("PRELU", "prelu", _set(axis="i0")),
    "reduce": OvxRow("REDUCE", "reduce", _reduce),
    "reduce_l2": OvxRow(
        "REDUCEL2",
        "reducel2",
        lambda i, _: [
            f"p.keep_dim = {'vx_true_e' if i[0] else 'vx_false_e'};",
            *_static("axis", "int32_t", i[1:], "axis_num"),
        ],
    ),
    "reshape": OvxRow("RESHAPE2", "reshape2", _listed("size", "dim_num", "vsi_size_t")),
    "resize": OvxRow("RESIZE", "resize", _resize),
    "reverse": OvxRow("REVERSE", "reverse", _listed("axis", "axis_num", "int32_t")),
    "scatter_nd": OvxRow("SCATTER_ND", "scatter_nd", _listed("shape", "dim_num")),
    "selu": OvxRow("SELU", "selu", _set(alpha="f0", gamma="f1")),
    "shuffle_channel": OvxRow("SHUFFLECHANNEL", "shufflechannel", _set(group_number="i0", axis="i1")),
    "slice": OvxRow("SLICE", "slice", _slice),
    "softmax": OvxRow("SOFTMAX", "softmax", _set(axis="i0", beta="f0")),
    "space_to_depth": OvxRow("SPACE2DEPTH", "space2depth", lambda i, _: _pairs("block_size", (i[0], i[0]))),
    "split": OvxRow("SPLIT", "split", _listed("slices", "slices_num", "uint32_t", _set(axis="i0"), skip=1)),
    "stack": OvxRow("STACK", "stack", _set(axis="i0")),
    "strided_slice": OvxRow("STRIDED_SLICE", "strided_slice", _strided_slice),
    "swish": OvxRow("SWISH", "swish", _set(type="VSI_NN_SWISH", beta="f0")),
    "tanh": OvxRow("TANH", "tanh", _set(scale_a="1.0f", scale_b="1.0f")),
    "tile": OvxRow("TILE", "tile", _listed("multiples", "multiples_num", "int32_t")),
    "topk": OvxRow("TOPK", "topk", _set(k="i0", axis="i1")),
    "transpose": OvxRow("PERMUTE", "permute", _listed("perm", "dim_num")),
    "unstack": OvxRow("UNSTACK", "unstack", _set(axis="i0")),
}
"""By the kind of a program's operator."""
