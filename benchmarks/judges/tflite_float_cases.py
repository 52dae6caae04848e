"""Cases of TFLite's float, integer and bool operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dovetail.ir import DType
from judges.tflite_cases import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    LiteCase,
    Options,
    Output,
    bits,
    case,
    constant,
    ints,
    random,
    real,
    whole,
)

_IMAGE = (2, 5, 6, 3)
_CONV: dict[str, object] = {
    "padding": 0,
    "strideH": 1,
    "strideW": 1,
    "dilationHFactor": 1,
    "dilationWFactor": 1,
    "fusedActivationFunction": 0,
}


def _options(name: str, base: dict[str, object] | None = None, **fields: object) -> Options:
    return name, {**(base or {}), **fields}


def elementwise() -> Iterator[LiteCase]:
    """Yield unary and binary operators."""
    for name in ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU", "RELU6"):
        yield case(name, [real(*_IMAGE, low=-8, high=8)])
    for name in ("RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "SIGN", "SIN", "SQUARE", "TANH", "ZEROS_LIKE"):
        yield case(name, [real(*_IMAGE, low=-3, high=3)])
    for name in ("LOG", "SQRT", "RSQRT"):
        yield case(name, [real(2, 3, low=0.1, high=4)])
    yield case("LOGICAL_NOT", [bits(4, 5)], [BOOL])
    yield case("LEAKY_RELU", [real(*_IMAGE)], options=_options("LeakyReluOptions", alpha=0.3))
    yield case("GELU", [real(4, 5)], options=_options("GeluOptions", approximate=False))
    yield case("GELU.tanh", [real(4, 5)], options=_options("GeluOptions", approximate=True))
    yield case("PRELU", [real(*_IMAGE), random(1, 1, 3)])
    for name, kind in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")):
        for act in (0, 1, 2, 3):
            fields = _options(kind, fusedActivationFunction=act)
            yield case(f"{name}.act{act}", [real(*_IMAGE), real(*_IMAGE, low=0.5, high=2)], options=fields)
        yield case(f"{name}.broadcast", [real(*_IMAGE), constant([1.0, 2.0, 3.0])], options=_options(kind))
        yield case(f"{name}.scalar", [real(*_IMAGE), constant(2.5)], options=_options(kind))
        yield case(f"{name}.ints", [whole(3, 4), whole(3, 4, low=1)], [INT32], options=_options(kind))
    for name in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
        yield case(name, [real(*_IMAGE), real(3)])
    yield case("POW", [real(3, 4, low=0.1), real(4)])
    yield case("FLOOR_DIV", [real(3, 4), real(4, low=0.5)])
    yield case("FLOOR_DIV.ints", [whole(3, 4), constant([2, -3, 4, -5], DType.I32)], [INT32])
    yield case("FLOOR_MOD", [real(3, 4), real(4, low=0.5)])
    yield case("FLOOR_MOD.ints", [whole(3, 4), constant([2, -3, 4, -5], DType.I32)], [INT32])
    for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
        yield case(name, [whole(3, 4, low=0, high=3), whole(4, low=0, high=3)], [BOOL])
    for name in ("LOGICAL_AND", "LOGICAL_OR"):
        yield case(name, [bits(3, 4), bits(4)], [BOOL])
    yield case("BITWISE_XOR", [whole(3, 4), whole(3, 4)], [INT32])
    yield case(
        "RIGHT_SHIFT",
        [whole(6, low=0, high=900, dtype=DType.U32), whole(6, low=0, dtype=DType.U32)],
        [Output(DType.U32)],
    )
    yield case("ADD_N", [real(3, 4), real(3, 4), real(3, 4)])
    yield case("SELECT", [bits(3), real(3, 4), real(3, 4)])
    yield case("SELECT_V2", [bits(3, 1), real(3, 4), real(1, 4)])
    yield case("CAST", [real(3, 4, low=-9, high=9)], [INT32], _options("CastOptions", inDataType=0, outDataType=2))


def images() -> Iterator[LiteCase]:
    """Yield convolutions, pools and resizes."""
    for padding in (0, 1):
        for stride, dilation in ((1, 1), (2, 1), (1, 2)):
            fields = {**_CONV, "padding": padding, "strideH": stride, "strideW": stride}
            fields |= {"dilationHFactor": dilation, "dilationWFactor": dilation}
            label = f"pad{padding}.stride{stride}.dilation{dilation}"
            weights = [random(4, 3, 2, 3), random(4)]
            yield case(f"CONV_2D.{label}", [real(2, 9, 8, 3), *weights], options=("Conv2DOptions", fields))
            deep = {**fields, "depthMultiplier": 2}
            weights = [random(1, 3, 2, 6), random(6)]
            yield case(
                f"DEPTHWISE_CONV_2D.{label}", [real(2, 9, 8, 3), *weights], options=("DepthwiseConv2DOptions", deep)
            )
    yield case("CONV_2D.grouped", [real(1, 5, 5, 4), random(6, 3, 3, 2), random(6)], options=("Conv2DOptions", _CONV))
    for padding, height in ((0, 10), (1, 11)):
        fields = {"padding": padding, "strideH": 2, "strideW": 2}
        yield case(
            f"TRANSPOSE_CONV.pad{padding}",
            [ints(1, height, height, 4), random(4, 3, 3, 2), real(1, 5, 5, 2), random(4)],
            options=("TransposeConvOptions", fields),
        )
    volume: dict[str, object] = {"padding": 0, "strideD": 1, "strideH": 2, "strideW": 1}
    yield case("CONV_3D", [real(1, 4, 5, 6, 2), random(2, 3, 3, 2, 4), random(4)], options=("Conv3DOptions", volume))
    yield case(
        "CONV_3D_TRANSPOSE",
        [ints(1, 4, 10, 6, 4), random(2, 3, 3, 4, 2), real(1, 4, 5, 6, 2), random(4)],
        options=("Conv3DOptions", volume),
    )
    for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        for padding in (0, 1):
            fields = {"padding": padding, "strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 2}
            yield case(f"{name}.pad{padding}", [real(2, 9, 8, 3)], options=("Pool2DOptions", fields))
    for name, kind in (("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR",) * 2):
        kind = "ResizeNearestNeighborOptions" if kind.startswith("RESIZE") else kind
        for corners, half in ((False, False), (True, False), (False, True)):
            fields = {"alignCorners": corners, "halfPixelCenters": half}
            for size in ((7, 11), (3, 2)):
                label = f"{name}.corners{corners:d}.half{half:d}.{size[0]}"
                yield case(label, [real(1, 5, 6, 2), ints(*size)], options=(kind, fields))
    yield case("DEPTH_TO_SPACE", [real(1, 2, 3, 12)], options=_options("DepthToSpaceOptions", blockSize=2))
    yield case("SPACE_TO_DEPTH", [real(1, 4, 6, 3)], options=_options("SpaceToDepthOptions", blockSize=2))
    pads = constant([[0, 1], [2, 1]], DType.I32)
    yield case("SPACE_TO_BATCH_ND", [real(1, 5, 3, 2), ints(2, 3), pads], options=_options("SpaceToBatchNDOptions"))
    for label, crops in (("", [[0, 0], [0, 0]]), (".crop", [[0, 1], [1, 0]])):
        inputs = [real(6, 2, 3, 2), ints(2, 3), constant(crops, DType.I32)]
        yield case(f"BATCH_TO_SPACE_ND{label}", inputs, options=_options("BatchToSpaceNDOptions"))
    lrn = _options("LocalResponseNormalizationOptions", radius=2, bias=1.0, alpha=0.1, beta=0.75)
    found = case("LOCAL_RESPONSE_NORMALIZATION", [real(1, 3, 3, 8)], options=lrn)
    # LiteRT's reference kernel leaves the last channel of each window out; TensorFlow and the optimised one do not.
    yield replace(found, operator=replace(found.operator, optimised=True))


def products() -> Iterator[LiteCase]:
    """Yield matrix products and recurrent networks."""
    kind = "FullyConnectedOptions"
    yield case("FULLY_CONNECTED", [real(4, 6), random(3, 6), random(3)], options=_options(kind))
    kept = _options(kind, keepNumDims=True, fusedActivationFunction=1)
    yield case("FULLY_CONNECTED.kept", [real(2, 4, 6), random(3, 6), random(3)], options=kept)
    yield case("FULLY_CONNECTED.flat", [real(2, 2, 3, 6), random(3, 18), None], options=_options(kind))
    for x, y in ((False, False), (True, False), (False, True)):
        left = (2, 4, 3) if x else (2, 3, 4)
        right = (2, 5, 4) if y else (2, 4, 5)
        fields = _options("BatchMatMulOptions", adjX=x, adjY=y)
        yield case(f"BATCH_MATMUL.{x:d}{y:d}", [real(*left), real(*right)], options=fields)
    yield case("EMBEDDING_LOOKUP", [ints(2, 0, 1), real(4, 3)])
    rnn = _options("SequenceRNNOptions", fusedActivationFunction=4)
    weights = [random(4, 3), random(4, 4, scale=0.3), random(4)]
    yield case("UNIDIRECTIONAL_SEQUENCE_RNN", [real(2, 5, 3), *weights, real(2, 4)], options=rnn, variables=(4,))
    lstm = _options("UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4)
    gates = [random(4, 3 + 0) for _ in range(4)] + [random(4, 4, scale=0.3) for _ in range(4)]
    biases = [random(4) for _ in range(4)]
    inputs = [real(2, 5, 3), *gates, None, None, None, *biases, None, None, real(2, 4), real(2, 4)]
    yield case("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, options=lstm, variables=(18, 19))
    both = [real(2, 5, 3), *weights, real(2, 4), *weights, real(2, 4), None, None, None]
    merged = _options("BidirectionalSequenceRNNOptions", fusedActivationFunction=4, mergeOutputs=True)
    yield case("BIDIRECTIONAL_SEQUENCE_RNN", both, options=merged, variables=(4, 8))
    one = [*gates, None, None, None, *biases, None, None]
    # One sample: LiteRT does not reset the states of further ones, and what they hold differs from run to run.
    states = [real(1, 4) for _ in range(4)]
    merged = _options("BidirectionalSequenceLSTMOptions", fusedActivationFunction=4, mergeOutputs=True, timeMajor=False)
    both = [real(1, 5, 3), *one, *one, *states, *[None] * 9]
    yield case("BIDIRECTIONAL_SEQUENCE_LSTM", both, options=merged, variables=(35, 36, 37, 38))


def reductions() -> Iterator[LiteCase]:
    """Yield operators along axes."""
    for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for keep in (False, True):
            for axes in ((1, 2), (-1,), (2,)):
                label = f"{name}.keep{keep:d}.{'_'.join(str(axis) for axis in axes)}"
                fields = _options("ReducerOptions", keepDims=keep)
                yield case(label, [real(*_IMAGE), ints(*axes)], options=fields)
    for name in ("REDUCE_ANY", "REDUCE_ALL"):
        yield case(name, [bits(3, 4), ints(1)], [BOOL], _options("ReducerOptions", keepDims=False))
    for name in ("ARG_MAX", "ARG_MIN"):
        kind = "ArgMaxOptions" if name == "ARG_MAX" else "ArgMinOptions"
        yield case(name, [real(*_IMAGE), ints(2)], [INT64], _options(kind, outputType=4))
        yield case(f"{name}.i32", [real(3, 4), ints(-1)], [INT32], _options(kind, outputType=2))
    yield case("SOFTMAX", [real(2, 5)], options=_options("SoftmaxOptions", beta=1.0))
    yield case("SOFTMAX.beta", [real(*_IMAGE)], options=_options("SoftmaxOptions", beta=0.5))
    yield case("LOG_SOFTMAX", [real(2, 5)])
    yield case("L2_NORMALIZATION", [real(*_IMAGE)], options=_options("L2NormOptions"))
    for exclusive, reverse in ((False, False), (True, False), (False, True)):
        fields = _options("CumsumOptions", exclusive=exclusive, reverse=reverse)
        yield case(f"CUMSUM.{exclusive:d}{reverse:d}", [real(3, 4), ints(1)], options=fields)


def moves() -> Iterator[LiteCase]:
    """Yield operators that move elements."""
    yield case("RESHAPE", [real(2, 6), ints(3, -1)])
    yield case("EXPAND_DIMS", [real(2, 6), ints(1)])
    yield case(
        "SQUEEZE",
        [
            real(2, 1, 6),
        ],
        options=_options("SqueezeOptions", squeezeDims=[1]),
    )
    yield case("TRANSPOSE", [real(*_IMAGE), ints(0, 3, 1, 2)])
    for axis in (-1, 1):
        fields = _options("ConcatenationOptions", axis=axis)
        yield case(f"CONCATENATION.{axis}", [real(*_IMAGE), real(*_IMAGE)], options=fields)
    for axis in (0, 1, -1):
        inputs = [real(3, 4), real(3, 4)]
        yield case(f"PACK.{axis}", inputs, options=_options("PackOptions", axis=axis, valuesCount=2))
    yield case("UNPACK", [real(3, 2, 4)], [FLOAT, FLOAT], _options("UnpackOptions", axis=1, num=2))
    yield case("SPLIT", [ints(1), real(3, 4)], [FLOAT, FLOAT], _options("SplitOptions", numSplits=2))
    yield case("SPLIT_V", [real(3, 5), ints(2, -1), ints(1)], [FLOAT, FLOAT], _options("SplitVOptions", numSplits=2))
    pads = constant([[0, 0], [1, 2], [0, 1], [2, 0]], DType.I32)
    yield case("PAD", [real(*_IMAGE), pads])
    yield case("PADV2", [real(*_IMAGE), pads, constant([1.5])])
    small = constant([[0, 0], [1, 2], [0, 1], [1, 0]], DType.I32)
    for mode in (0, 1):
        yield case(f"MIRROR_PAD.{mode}", [real(*_IMAGE), small], options=_options("MirrorPadOptions", mode=mode))
    yield case("TILE", [real(2, 3), ints(2, 3)])
    yield case("BROADCAST_TO", [real(2, 1, 3), ints(2, 4, 3)])
    yield case("FILL", [ints(2, 3), real()])
    yield case("SHAPE", [real(*_IMAGE)], [INT32], _options("ShapeOptions", outType=2))
    yield case("RANK", [real(*_IMAGE)], [INT32])
    yield case("RANGE", [constant(1, DType.I32), constant(9, DType.I32), constant(2, DType.I32)], [INT32])
    yield case("REVERSE_V2", [real(*_IMAGE), ints(2)])
    lengths = constant([2, 4], DType.I32)
    yield case("REVERSE_SEQUENCE", [real(2, 4, 3), lengths], options=_options("ReverseSequenceOptions", seqDim=1))


def picks() -> Iterator[LiteCase]:
    """Yield operators that pick elements."""
    yield case("SLICE", [real(*_IMAGE), ints(0, 1, 2, 0), ints(2, 3, -1, 2)])
    for label, fields in (
        ("plain", {}),
        ("masks", {"beginMask": 1, "endMask": 2}),
        ("shrink", {"shrinkAxisMask": 2, "endMask": 1}),
    ):
        inputs = [real(4, 5, 3), ints(1, 1), ints(3, 4), ints(2, 1)]
        yield case(f"STRIDED_SLICE.{label}", inputs, options=("StridedSliceOptions", fields))
    yield case(
        "STRIDED_SLICE.back",
        [real(4, 5), ints(-1, 4), ints(-4, 0), ints(-1, -2)],
        options=_options("StridedSliceOptions"),
    )
    yield case("GATHER", [real(4, 5), ints(3, 0, 1)], options=_options("GatherOptions", axis=1))
    batched = _options("GatherOptions", axis=1, batchDims=1)
    yield case("GATHER.batch", [real(2, 5, 3), constant([[1, 0], [4, 2]], DType.I32)], options=batched)
    yield case("GATHER_ND", [real(4, 5, 3), constant([[1, 2], [3, 0]], DType.I32)])
    yield case("SCATTER_ND", [constant([[1], [3]], DType.I32), real(2, 3), ints(5, 3)])
    yield case("DYNAMIC_UPDATE_SLICE", [real(4, 5), real(2, 3), ints(1, 4)])
    yield case("TOPK_V2", [real(3, 6), constant(2, DType.I32)], [FLOAT, INT32])
    yield case("WHERE", [constant(np.eye(3, dtype=np.bool_)[:, :2], DType.BOOL)], [INT64])
    hot = [ints(1, 0, 3), constant(4, DType.I32), constant(2.0), constant(-1.0)]
    yield case("ONE_HOT", hot, options=_options("OneHotOptions", axis=-1))
    yield case(
        "SPARSE_TO_DENSE", [constant([[0, 1], [2, 3]], DType.I32), ints(3, 4), constant([5.0, 6.0]), constant(0.5)]
    )
    fake = _options("FakeQuantOptions", min=-1.0, max=2.0, numBits=8, narrowRange=False)
    yield case("FAKE_QUANT", [real(3, 4, low=-3, high=3)], options=fake)
    boxes = constant([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 2, 1, 3.05]])
    inputs = [boxes, real(4, low=0.1, high=1), constant(3, DType.I32), constant(0.5), constant(0.2)]
    yield case("NON_MAX_SUPPRESSION_V4", inputs, [INT32, INT32])


def float_cases() -> Iterator[LiteCase]:
    """Yield every case."""
    yield from elementwise()
    yield from images()
    yield from products()
    yield from reductions()
    yield from moves()
    yield from picks()
