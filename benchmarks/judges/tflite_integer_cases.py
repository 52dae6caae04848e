"""Cases of TFLite's 8-bit and 16-bit operators, with scales that use the whole range."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dovetail.ir import AnyArray, DType, Quantization
from judges.tflite_cases import Input, LiteCase, Options, Output, case, constant, ints, stored

_FORMATS: dict[str, tuple[DType, int]] = {"i8": (DType.I8, 3), "u8": (DType.U8, 131), "i16": (DType.I16, 0)}
_IMAGE = (2, 9, 8, 4)


def _quant(scale: float, zero: int) -> Quantization:
    return Quantization((float(np.float32(scale)),), (zero,))


def data(kind: str, *shape: int, scale: float = 0.02) -> Input:
    """Return data in a format; 16-bit data has a scale 256 times smaller."""
    dtype, zero = _FORMATS[kind]
    return stored(dtype, scale / 256 if kind == "i16" else scale, zero, *shape)


def result(kind: str, scale: float, zero: int | None = None) -> Output:
    """Return an output in a format."""
    dtype, usual = _FORMATS[kind]
    if kind == "i16":
        return Output(dtype, _quant(scale / 256, 0))
    return Output(dtype, _quant(scale, usual if zero is None else zero))


def _weight(kind: str, shape: tuple[int, ...], axis: int, *, per_channel: bool) -> tuple[Input, AnyArray]:
    """Return a weight and its scales."""
    generator = np.random.default_rng(zlib.crc32(repr((kind, shape)).encode()))
    if kind == "u8":
        value = generator.integers(0, 256, shape)
        scales = np.full(1, 0.004, np.float32)
        return constant(value, DType.U8, _quant(float(scales[0]), 121)), scales
    value = generator.integers(-127, 128, shape)
    count = shape[axis] if per_channel else 1
    scales = generator.uniform(0.002, 0.008, count).astype(np.float32)
    quant = Quantization(tuple(float(item) for item in scales), (0,) * count, axis if per_channel else None)
    return constant(value, DType.I8, quant), scales


def _bias(kind: str, count: int, data_scale: float, scales: AnyArray) -> Input:
    generator = np.random.default_rng(count)
    dtype = DType.I64 if kind == "i16" else DType.I32
    real = np.float32(data_scale) * scales
    quant = Quantization(tuple(float(item) for item in real), (0,) * len(real), 0 if len(real) > 1 else None)
    value = generator.integers(-3000, 3000, count) * (256 if kind == "i16" else 1)
    return constant(value, dtype, quant)


def _accumulating(kind: str, weight_shape: tuple[int, ...], axis: int, per_channel: bool) -> list[Input]:
    weight, scales = _weight(kind, weight_shape, axis, per_channel=per_channel)
    data_scale = 0.02 / 256 if kind == "i16" else 0.02
    return [weight, _bias(kind, weight_shape[axis], data_scale, scales)]


def accumulating() -> Iterator[LiteCase]:
    """Yield convolutions and products."""
    for kind in _FORMATS:
        per_channel = kind != "u8"
        for padding, stride, act in ((0, 1, 0), (0, 2, 3), (1, 1, 1)):
            fields: dict[str, object] = {"padding": padding, "strideH": stride, "strideW": stride}
            fields |= {"dilationHFactor": 1, "dilationWFactor": 1, "fusedActivationFunction": act}
            label = f"{kind}.pad{padding}.stride{stride}.act{act}"
            inputs = [data(kind, *_IMAGE), *_accumulating(kind, (8, 3, 3, 4), 0, per_channel)]
            yield case(f"CONV_2D.{label}", inputs, [result(kind, 0.12)], ("Conv2DOptions", fields))
            inputs = [data(kind, *_IMAGE), *_accumulating(kind, (1, 3, 3, 4), 3, per_channel)]
            deep: Options = ("DepthwiseConv2DOptions", {**fields, "depthMultiplier": 1})
            yield case(f"DEPTHWISE_CONV_2D.{label}", inputs, [result(kind, 0.06)], deep)
        for each in {False, per_channel}:
            inputs = [data(kind, 64, 40), *_accumulating(kind, (16, 40), 0, each)]
            label = f"FULLY_CONNECTED.{kind}.{'channels' if each else 'tensor'}"
            yield case(label, inputs, [result(kind, 0.08)], ("FullyConnectedOptions", {}))
        weight, bias = _accumulating(kind, (4, 3, 3, 4), 0, per_channel)
        transposed = [ints(2, 18, 16, 4), weight, data(kind, *_IMAGE), bias]
        fields = {"padding": 0, "strideH": 2, "strideW": 2}
        yield case(f"TRANSPOSE_CONV.{kind}", transposed, [result(kind, 0.08)], ("TransposeConvOptions", fields))
    for kind in ("i8", "i16"):
        inputs = [data(kind, 4, 12, 10), data(kind, 4, 10, 12)]
        yield case(f"BATCH_MATMUL.{kind}", inputs, [result(kind, 0.05)], ("BatchMatMulOptions", {}))


def elementwise() -> Iterator[LiteCase]:
    """Yield operators on elements."""
    for kind in _FORMATS:
        for name, table in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
            fields: dict[str, object] = {} if name == "MUL" else {"potScaleInt16": False}
            pair = [data(kind, 40, 50), data(kind, 40, 50, scale=0.013)]
            yield case(f"{name}.{kind}", pair, [result(kind, 0.027)], (table, fields))
            row = [data(kind, 40, 50), data(kind, 50, scale=0.013)]
            relu = {**fields, "fusedActivationFunction": 1}
            yield case(f"{name}.{kind}.row", row, [result(kind, 0.027)], (table, relu))
        one = result(kind, 0.02)
        for name in ("MAXIMUM", "MINIMUM"):
            yield case(f"{name}.{kind}", [data(kind, 40, 50), data(kind, 40, 50)], [one])
        fixed = (1 / 128, 0 if kind == "i8" else 128) if kind != "i16" else (256 / 32768, 0)
        yield case(f"TANH.{kind}", [data(kind, 2000)], [result(kind, *fixed)])
        fixed = (1 / 256, -128 if kind == "i8" else 0) if kind != "i16" else (256 / 32768, 0)
        yield case(f"LOGISTIC.{kind}", [data(kind, 2000, scale=0.05)], [result(kind, *fixed)])
        yield case(
            f"SOFTMAX.{kind}",
            [data(kind, 200, 10, scale=0.05)],
            [result(kind, *fixed)],
            ("SoftmaxOptions", {"beta": 1.0}),
        )
        yield case(
            f"LEAKY_RELU.{kind}", [data(kind, 2000)], [result(kind, 0.017)], ("LeakyReluOptions", {"alpha": 0.2})
        )
        yield case(f"RELU.{kind}", [data(kind, 2000)], [result(kind, 0.017)])
        yield case(f"DEQUANTIZE.{kind}", [data(kind, 2000)], [Output()])
        yield case(f"QUANTIZE.{kind}", [Input((2000,))], [one])
    for kind in ("i8", "u8"):
        yield case(f"DIV.u8.{kind}" if kind == "u8" else "PRELU.i8", *_special(kind))
        yield case(f"RELU6.{kind}", [data(kind, 2000, scale=0.07)], [result(kind, 0.03)])
        yield case(f"HARD_SWISH.{kind}", [data(kind, 2000, scale=0.05)], [result(kind, 0.03)])
        yield case(f"QUANTIZE.again.{kind}", [data(kind, 2000)], [result(kind, 0.031, 7)])
    yield case("ELU.i8", [data("i8", 2000)], [result("i8", 0.02)])
    yield case("EXP.i8", [data("i8", 2000)], [result("i8", 0.06, -128)])
    yield case("RSQRT.i8", [stored(DType.I8, 0.05, -128, 2000)], [result("i8", 0.05, -128)])
    yield case("ABS.i8", [data("i8", 2000)], [result("i8", 0.025)])
    yield case("SQUARED_DIFFERENCE.i8", [data("i8", 40, 50), data("i8", 40, 50)], [result("i8", 0.05, -128)])


def _special(kind: str) -> tuple[list[Input], Sequence[Output], Options | None]:
    if kind == "i8":
        slope = constant(np.arange(-60, 60, 12).reshape(1, 1, 10), DType.I8, _quant(0.01, 4))
        return [data("i8", 4, 5, 6, 10), slope], [result("i8", 0.025)], None
    divisor = constant(np.arange(140, 190), DType.U8, _quant(0.02, 130))
    return [data("u8", 40, 50), divisor], [result("u8", 0.08)], ("DivOptions", {})


def windows() -> Iterator[LiteCase]:
    """Yield pools, resizes, reductions and moves."""
    for kind in _FORMATS:
        one = result(kind, 0.02)
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            fields: dict[str, object] = {"padding": 0, "strideH": 2, "strideW": 1, "filterHeight": 3, "filterWidth": 2}
            yield case(f"{name}.{kind}", [data(kind, *_IMAGE)], [one], ("Pool2DOptions", fields))
        for name in ("MEAN", "SUM"):
            target = result(kind, 0.015 if name == "MEAN" else 0.2)
            inputs = [data(kind, 8, 9, 8, 16), ints(1, 2)]
            made = case(f"{name}.{kind}", inputs, [target], ("ReducerOptions", {"keepDims": False}))
            # The reference kernel writes -1 everywhere for sums of signed integers; the usual kernels compute them.
            broken = name == "SUM" and kind != "u8"
            yield replace(made, operator=replace(made.operator, optimised=True)) if broken else made
        pads = constant([[0, 0], [1, 2], [0, 1], [0, 0]], DType.I32)
        yield case(f"PAD.{kind}", [data(kind, *_IMAGE), pads], [one])
        yield case(
            f"CONCATENATION.{kind}",
            [data(kind, *_IMAGE), data(kind, *_IMAGE)],
            [one],
            ("ConcatenationOptions", {"axis": 3}),
        )
        yield case(f"RESHAPE.{kind}", [data(kind, 8, 6), ints(4, 12)], [one])
        yield case(f"TRANSPOSE.{kind}", [data(kind, 2, 3, 4), ints(2, 0, 1)], [one])
        yield case(
            f"RESIZE_BILINEAR.{kind}",
            [data(kind, *_IMAGE), ints(18, 12)],
            [one],
            ("ResizeBilinearOptions", {"halfPixelCenters": True}),
        )
        yield case(
            f"RESIZE_NEAREST_NEIGHBOR.{kind}",
            [data(kind, *_IMAGE), ints(18, 12)],
            [one],
            ("ResizeNearestNeighborOptions", {}),
        )


def integer_cases() -> Iterator[LiteCase]:
    """Yield every case."""
    yield from accumulating()
    yield from elementwise()
    yield from windows()
