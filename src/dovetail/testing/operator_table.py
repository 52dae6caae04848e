"""The table of single-operator cases."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.ir import DType
from dovetail.testing.operator_case import Data, Exactly, Fixed, Omitted, Operand, OperatorCase

_IMAGE = Data((2, 4, 9, 8))
_VECTOR = Data((3, 10))


def _case(name: str, *operands: Operand, **attributes: object) -> OperatorCase:
    """Return a case; the operator is the part of the name before the first dot."""
    return OperatorCase(name, name.partition(".")[0], operands, attributes)


def _ints(*values: int) -> Exactly:
    return Exactly(values)


def _floats(*values: float, shape: tuple[int, ...] | None = None) -> Exactly:
    return Exactly(values, DType.F32, shape)


def _accumulating() -> Iterator[OperatorCase]:
    yield _case("Conv", _IMAGE, Fixed((6, 4, 3, 3)), Fixed((6,), -2, 2), pads=(1, 1, 1, 1))
    yield _case("Conv.no_bias", _IMAGE, Fixed((6, 4, 3, 3)))
    yield _case("Conv.stride", _IMAGE, Fixed((6, 4, 3, 3)), Fixed((6,)), strides=(2, 2), pads=(0, 1, 2, 1))
    yield _case("Conv.same_upper", _IMAGE, Fixed((6, 4, 2, 3)), Fixed((6,)), strides=(2, 2), auto_pad="SAME_UPPER")
    yield _case("Conv.dilated", _IMAGE, Fixed((6, 4, 3, 3)), Fixed((6,)), dilations=(2, 2))
    yield _case("Conv.pointwise", _IMAGE, Fixed((16, 4, 1, 1), -0.2, 0.9), Fixed((16,)))
    yield _case("Conv.depthwise", _IMAGE, Fixed((4, 1, 3, 3)), Fixed((4,)), group=4, pads=(1, 1, 1, 1))
    yield _case("Conv.grouped", _IMAGE, Fixed((6, 2, 3, 3)), Fixed((6,)), group=2)
    yield _case("Conv.1d", Data((2, 4, 20)), Fixed((5, 4, 3)), Fixed((5,)))
    yield _case("Conv.3d", Data((1, 2, 5, 5, 5)), Fixed((3, 2, 2, 2, 2)), Fixed((3,)))
    yield _case("ConvTranspose", _IMAGE, Fixed((4, 5, 3, 3)), Fixed((5,)), strides=(2, 2), pads=(1, 1, 1, 1))
    yield _case("ConvTranspose.padded", _IMAGE, Fixed((4, 5, 2, 2)), strides=(2, 2), output_padding=(1, 0))
    yield _case("ConvTranspose.grouped", _IMAGE, Fixed((4, 3, 3, 3)), Fixed((6,)), group=2)
    yield _case("Gemm", _VECTOR, Fixed((10, 7)), Fixed((7,)))
    yield _case("Gemm.transposed", _VECTOR, Fixed((7, 10)), Fixed((7,)), transB=1)
    yield _case("Gemm.scaled", _VECTOR, Fixed((10, 7)), Fixed((7,)), alpha=0.5, beta=2.0)
    yield _case("MatMul", Data((2, 5, 10)), Fixed((10, 6)))
    yield _case("MatMul.dynamic", Data((2, 3, 5, 10)), Data((2, 3, 10, 6), -0.4, 2.0))
    yield _case("Einsum", Data((2, 5, 10)), Data((2, 6, 10)), equation="bij,bkj->bik")


def _binary() -> Iterator[OperatorCase]:
    other = Data((2, 4, 9, 8), -1.0, 5.0)
    for op in ("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum"):
        yield _case(op, _IMAGE, other)
    yield _case("Add.channel", _IMAGE, Fixed((4, 1, 1)))
    yield _case("Add.broadcast", _IMAGE, Data((4, 1, 8), -20, 20))
    yield _case("Mul.scalar", _IMAGE, Fixed((), 0.3, 0.4))
    yield _case("Mul.channel", _IMAGE, Data((2, 4, 1, 1), 0, 1))
    yield _case("Div", _IMAGE, Data((2, 4, 9, 8), 0.5, 2.0))
    yield _case("Pow", _IMAGE, _floats(2.0, shape=()))
    yield _case("PRelu", _IMAGE, Fixed((4, 1, 1), 0.0, 0.5))
    yield OperatorCase("Greater", "Greater", (_IMAGE, other), outputs=(DType.BOOL,))
    mask = Exactly((True, False, True, False, False, True, True, True), DType.BOOL)
    yield _case("Where", mask, _IMAGE, other)


def _unary() -> Iterator[OperatorCase]:
    plain = ("Abs", "Ceil", "Celu", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish")
    more = ("Mish", "Neg", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Tanh")
    for op in plain + more:
        yield _case(op, _IMAGE)
    for op in ("Atan", "Asinh", "Shrink", "ThresholdedRelu", "Identity"):
        yield _case(op, _VECTOR)
    for op in ("Log", "Sqrt", "Reciprocal"):
        yield _case(op, Data((3, 40), 0.2, 4.0))
    yield _case("Gelu.tanh", _IMAGE, approximate="tanh")
    yield _case("Sigmoid.wide", Data((3, 40), -12.0, 9.0))
    yield _case("LeakyRelu", _IMAGE, alpha=0.1)
    yield _case("Clip", _IMAGE, _floats(-0.7, shape=()), _floats(1.9, shape=()))
    bounds = (_floats(0.0, shape=()), _floats(2.5, shape=()))
    crossed = (_floats(1.0, shape=()), _floats(-0.5, shape=()))
    yield OperatorCase("Clip.crossed", "Clip", (_IMAGE, *crossed), same_scale=True)
    yield OperatorCase("Relu.same_scale", "Relu", (_IMAGE,), same_scale=True)
    yield OperatorCase("Clip.same_scale", "Clip", (_IMAGE, *bounds), same_scale=True)


def _normalising() -> Iterator[OperatorCase]:
    scale, bias = Fixed((4,), 0.5, 2.0), Fixed((4,))
    yield _case("Softmax", _VECTOR)
    yield _case("Softmax.channels", _IMAGE, axis=1)
    yield _case("LogSoftmax", _VECTOR)
    yield _case("BatchNormalization", _IMAGE, scale, bias, Fixed((4,)), Fixed((4,), 0.5, 2.0))
    yield _case("InstanceNormalization", _IMAGE, scale, bias)
    yield _case("GroupNormalization", _IMAGE, scale, bias, num_groups=2)
    yield _case("LayerNormalization", Data((2, 5, 16)), Fixed((16,), 0.5, 2.0), Fixed((16,)))
    yield _case("LRN", _IMAGE, size=3, alpha=0.01)
    yield _case("LpNormalization", _IMAGE, axis=1)


def _pooling() -> Iterator[OperatorCase]:
    window = {"kernel_shape": (3, 2), "strides": (2, 2)}
    yield _case("MaxPool", _IMAGE, **window)
    yield _case("MaxPool.padded", _IMAGE, pads=(1, 1, 1, 0), ceil_mode=1, **window)
    yield _case("AveragePool", _IMAGE, **window)
    yield _case("AveragePool.padded", _IMAGE, pads=(1, 1, 1, 0), **window)
    yield _case("AveragePool.include_pad", _IMAGE, pads=(1, 1, 1, 0), count_include_pad=1, ceil_mode=1, **window)
    yield OperatorCase("AveragePool.same_scale", "AveragePool", (_IMAGE,), {"kernel_shape": (2, 2)}, same_scale=True)
    yield _case("GlobalAveragePool", _IMAGE)
    yield _case("GlobalMaxPool", _IMAGE)
    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"):
        yield _case(op, _IMAGE, _ints(2, 3), keepdims=0)
    yield _case("ReduceMean.channels", _IMAGE, _ints(1))
    yield OperatorCase("ArgMax", "ArgMax", (_IMAGE,), {"axis": 1}, (DType.I64,))


def _moving() -> Iterator[OperatorCase]:
    block = Data((1, 8, 4, 6))
    yield _case("Concat", _IMAGE, Data((2, 3, 9, 8), -0.1, 9.0), Data((2, 1, 9, 8), -1, 0), axis=1)
    yield OperatorCase("Split", "Split", (_IMAGE, _ints(1, 3)), {"axis": 1}, (DType.F32, DType.F32))
    yield _case("Slice", _IMAGE, _ints(1, 7), _ints(4, 0), _ints(2, 3), _ints(1, -2))
    yield _case("Reshape", _IMAGE, _ints(2, -1, 4))
    yield _case("Transpose", _IMAGE, perm=(0, 2, 3, 1))
    yield _case("Flatten", _IMAGE)
    yield _case("Squeeze", Data((1, 5, 1, 4)), _ints(0, 2))
    yield _case("Unsqueeze", _VECTOR, _ints(1))
    yield _case("Expand", Data((1, 4, 1, 8)), _ints(2, 4, 3, 8))
    yield _case("Tile", _VECTOR, _ints(2, 3))
    yield _case("Pad", _IMAGE, _ints(0, 0, 1, 2, 0, 0, 0, 1))
    yield _case("Pad.value", _IMAGE, _ints(0, 0, 1, 2, 0, 0, 0, 1), _floats(1.3, shape=()))
    yield _case("Pad.reflect", _IMAGE, _ints(0, 0, 1, 2, 0, 0, 0, 1), mode="reflect")
    yield _case("Gather", _IMAGE, _ints(3, 0, 3), axis=1)
    yield _case("GatherElements", _VECTOR, Exactly((1, 0, 9, 9, 5, 2), shape=(3, 2)), axis=1)
    yield _case("DepthToSpace", block, blocksize=2)
    yield _case("DepthToSpace.crd", block, blocksize=2, mode="CRD")
    yield _case("SpaceToDepth", block, blocksize=2)
    scales = _floats(1.0, 1.0, 2.0, 1.5)
    yield _case("Resize.nearest", block, Omitted(), scales, coordinate_transformation_mode="asymmetric")
    yield _case("Resize.linear", block, Omitted(), scales, mode="linear")
    yield _case("Resize.cubic", block, Omitted(), Omitted(), _ints(1, 8, 7, 5), mode="cubic")
    yield _case("CumSum", _VECTOR, Exactly((1,), shape=()))
    yield _case("Trilu", Data((2, 5, 5)))


def _others() -> Iterator[OperatorCase]:
    weights = (Fixed((1, 20, 4), -0.7, 0.7), Fixed((1, 20, 5), -0.7, 0.7), Fixed((1, 40), -0.3, 0.3))
    yield _case("LSTM", Data((6, 2, 4)), *weights, hidden_size=5)
    small = (Fixed((1, 15, 4), -0.7, 0.7), Fixed((1, 15, 5), -0.7, 0.7))
    yield _case("GRU", Data((6, 2, 4)), *small, hidden_size=5)
    for op in ("QuantizeLinear", "DequantizeLinear", "Requantize"):
        yield _case(op, _IMAGE)


def operator_cases() -> tuple[OperatorCase, ...]:
    """Return every case of the table."""
    families = (_accumulating, _binary, _unary, _normalising, _pooling, _moving, _others)
    return tuple(case for family in families for case in family())
