"""TFLite's hybrid kernels: float data meets 8-bit weights and is quantised as it runs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from dovetail.ir import DType, Quantization
from judges.tflite_cases import Input, LiteCase, Options, case, constant, ints, random, real

_LSTM_INPUTS = 24


def _weight(*shape: int, axis: int | None = None, scale: float = 0.006) -> Input:
    """Return an 8-bit weight with one scale, or one along an axis."""
    draw = np.random.default_rng(zlib.crc32(repr((shape, axis)).encode()))
    scales = draw.uniform(0.5, 1.5, 1 if axis is None else shape[axis]).astype(np.float32) * np.float32(scale)
    quant = Quantization(tuple(float(item) for item in scales), (0,) * len(scales), axis)
    return constant(draw.integers(-127, 128, shape), DType.I8, quant)


def convolutions() -> Iterator[LiteCase]:
    """Yield convolutions."""
    for axis, label in ((None, "tensor"), (0, "channels")):
        for padding, stride, act in ((0, 1, 0), (0, 2, 3), (1, 1, 1)):
            fields: dict[str, object] = {"padding": padding, "strideH": stride, "strideW": stride}
            fields |= {"dilationHFactor": 1, "dilationWFactor": 1, "fusedActivationFunction": act}
            inputs = [real(2, 9, 8, 5), _weight(6, 3, 3, 5, axis=axis), random(6)]
            yield case(f"CONV_2D.hybrid.{label}.{padding}{stride}{act}", inputs, options=("Conv2DOptions", fields))
        deep: Options = ("DepthwiseConv2DOptions", {**fields, "depthMultiplier": 1})
        kernel = _weight(1, 3, 3, 5, axis=None if axis is None else 3)
        if axis is not None:
            yield case(f"DEPTHWISE_CONV_2D.hybrid.{label}", [real(2, 9, 8, 5), kernel, random(5)], options=deep)
    wide = [real(1, 5, 5, 300), _weight(4, 3, 3, 300, axis=0), random(4)]
    options: Options = ("Conv2DOptions", {"padding": 0, "strideH": 1, "strideW": 1})
    yield case("CONV_2D.hybrid.wide", wide, options=options)


def products() -> Iterator[LiteCase]:
    """Yield matrix products and lookups."""
    for asymmetric in (False, True):
        for axis in (None, 0):
            for bias in (True, False):
                fields: dict[str, object] = {"asymmetricQuantizeInputs": asymmetric, "fusedActivationFunction": 1}
                inputs = [real(4, 40, high=3.0), _weight(11, 40, axis=axis), random(11) if bias else None]
                how = "asymmetric" if asymmetric else "symmetric"
                label = f"FULLY_CONNECTED.hybrid.{how}.{'tensor' if axis is None else 'channels'}.{bias:d}"
                yield case(label, inputs, options=("FullyConnectedOptions", fields))
        for turned in (False, True):
            fields = {"asymmetricQuantizeInputs": asymmetric, "adjY": turned}
            weight = _weight(2, *((5, 10) if turned else (10, 5)))
            label = f"BATCH_MATMUL.hybrid.{'asymmetric' if asymmetric else 'symmetric'}.{turned:d}"
            yield case(label, [real(2, 6, 10), weight], options=("BatchMatMulOptions", fields))
    yield case("EMBEDDING_LOOKUP.hybrid", [ints(2, 0, 1), _weight(4, 3)])


def recurrent() -> Iterator[LiteCase]:
    """Yield recurrent networks; states are variables that begin with zeros."""
    for asymmetric in (False, True):
        how = "asymmetric" if asymmetric else "symmetric"
        fields: dict[str, object] = {"fusedActivationFunction": 4, "asymmetricQuantizeInputs": asymmetric}
        weights = [_weight(4, 3), _weight(4, 4, scale=0.002), random(4)]
        rnn = [real(2, 5, 3), *weights, real(2, 4)]
        yield case(
            f"UNIDIRECTIONAL_SEQUENCE_RNN.hybrid.{how}", rnn, options=("SequenceRNNOptions", fields), variables=(4,)
        )
        gates = [_weight(4, 3, scale=0.006 + 0.001 * place) for place in range(4)]
        gates += [_weight(4, 4, scale=0.002 + 0.001 * place) for place in range(4)]
        lstm: list[Input | None] = [real(2, 5, 3), *gates, None, None, None, *(random(4) for _ in range(4))]
        lstm += [None, None, real(2, 4), real(2, 4)]
        options: Options = ("UnidirectionalSequenceLSTMOptions", fields)
        yield case(f"UNIDIRECTIONAL_SEQUENCE_LSTM.hybrid.{how}", lstm, options=options, variables=(18, 19))
        fields = {**fields, "mergeOutputs": True}
        back = [_weight(4, 3, scale=0.004), _weight(4, 4, scale=0.003), random(4)]
        both = [real(2, 5, 3), *weights, real(2, 4), *back, real(2, 4), None, None, None]
        options = ("BidirectionalSequenceRNNOptions", fields)
        yield case(f"BIDIRECTIONAL_SEQUENCE_RNN.hybrid.{how}", both, options=options, variables=(4, 8))
        one = [*lstm[1:16], None, None]
        # One sample: LiteRT does not reset the states of further ones.
        states = [real(1, 4) for _ in range(4)]
        options = ("BidirectionalSequenceLSTMOptions", {**fields, "timeMajor": False})
        inputs = [real(1, 5, 3), *one, *one, *states, *[None] * 9]
        label = f"BIDIRECTIONAL_SEQUENCE_LSTM.hybrid.{how}"
        yield case(label, inputs, options=options, variables=(35, 36, 37, 38))


def hybrid_cases() -> Iterator[LiteCase]:
    """Yield every case."""
    yield from convolutions()
    yield from products()
    yield from recurrent()
