"""What the vendor's compiler computes as one: sums and slopes with the products before them, gates with theirs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.emulator.averages import Average, array_average, average_of
from dovetail.backends.verisilicon.emulator.convolving import (
    WeightedSum,
    convolution,
    transposed_convolution,
    weighted_kernel,
)
from dovetail.backends.verisilicon.emulator.floats import truncated
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given, samples_first, with_samples
from dovetail.backends.verisilicon.emulator.multiplying import fully_connected
from dovetail.backends.verisilicon.emulator.normalising import scaled_channels
from dovetail.backends.verisilicon.emulator.operators import build_kernel
from dovetail.backends.verisilicon.emulator.reals import BINARY
from dovetail.backends.verisilicon.emulator.storing import Store, reals_of, stored_from
from dovetail.backends.verisilicon.emulator.streaming import STREAM_KINDS, ReadSpan, stream_table
from dovetail.backends.verisilicon.emulator.sums import build_joined_sum, in_stream
from dovetail.backends.verisilicon.emulator.tables import scales_of
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.program import ProgramOperator, Route
from dovetail.backends.verisilicon.views import OperatorView, ProgramView, scale_of, zero_of
from dovetail.ir import AnyArray, DType

_AVERAGES = ("pool2d", "reduce")
_EXTREMES = ("maximum", "minimum")
_SUMS = ("add", "sub")
_PRODUCTS: Mapping[str, Callable[[OperatorView, int, AnyArray | None], WeightedSum]] = {
    "conv2d": convolution,
    "deconv2d": transposed_convolution,
    "fully_connected": fully_connected,
    "grouped_conv2d": convolution,
}
_TOO_LARGE = 2.0**31
_STREAM_BITS = 16
_SINGLE_BITS = 24
_TRACED = 1.0 + 2.0**-30
"""What makes a number one that was cut off."""


def build_joined(whole: ProgramView, item: OperatorView, threads: int) -> tuple[Kernel, tuple[int, ...]]:
    """Return the kernel of an operator with the earlier ones that it joins, and the tensors that it reads."""
    source, kind = whole.operators[item.operator.joins[0]], item.operator.kind
    if source.operator.kind == "sigmoid":
        return build_kernel(_as_output(source, item, "swish"), threads), source.operator.inputs
    if kind in ("leaky_relu", "prelu"):
        return _with_slope(whole, item, threads), source.operator.inputs[:1]
    if kind in ("clip", "relu"):
        return _clamped_once(whole, item, threads), source.operator.inputs[:1]
    if kind in STREAM_KINDS:
        return _with_function(whole, item, threads), source.operator.inputs[:1]
    if kind == "mul" and whole.operators[item.operator.joins[-1]].operator.kind == "sigmoid":
        gate = _as_output(whole.operators[item.operator.joins[-1]], item, "swish")
        gated = OperatorView(whole, replace(gate.operator, joins=item.operator.joins[:-1]))
        return _with_function(whole, gated, threads), source.operator.inputs[:1]
    if kind in _EXTREMES or (kind == "mul" and source.operator.kind in _AVERAGES):
        return _with_operand(whole, item, threads)
    if source.operator.kind == "mul":
        return _normalised(source, item)
    if source.operator.kind in _AVERAGES and item.operator.route is not Route.ADDER:
        average = _as_output(source, item, source.operator.kind)
        return array_average(_averaged(average, item)), source.operator.inputs
    if kind == "add" and item.operator.route is not Route.ADDER:
        return _with_bias(source, item, threads), source.operator.inputs[:1]
    if kind == "data_convert":
        return _stored_once(source, item, threads), source.operator.inputs[:1]
    if item.made().dtype is DType.I16 or kind == "mul":
        return _with_operand(whole, item, threads)
    last = whole.operators[item.operator.joins[-1]]
    operand = item.operator.inputs.index(last.operator.outputs[0])
    clamped = any(whole.operators[index].operator.kind == "relu" for index in item.operator.joins)
    total = build_joined_sum(item, operand, clamped=clamped)
    weighted, made, shape = _product(source, _with_constant(whole, item), threads), item.made(), item.made_shape()

    def run(values: Values) -> AnyArray:
        steps = weighted.steps(samples_first(given(values)), made).reshape(len(given(values)), *shape)
        return total(steps, given(values, 1))

    return run, (source.operator.inputs[0], item.operator.inputs[1 - operand])


def _normalised(source: OperatorView, item: OperatorView) -> tuple[Kernel, tuple[int, ...]]:
    """Return a factor and a term a channel as one batch normalisation: what lies between is not rounded."""
    data, term = 0 if source.is_constant(1) else 1, 1 if item.is_constant(1) else 0
    numbers = [_channels(source, 1 - data), _channels(item, term)]
    operator = replace(item.operator, inputs=(source.operator.inputs[data],))
    return scaled_channels(OperatorView(item.whole, operator), *numbers), operator.inputs


def _channels(item: OperatorView, index: int) -> AnyArray:
    """Return the numbers of a constant that has one a channel."""
    value = item.constant(index)
    assert value is not None
    return reals_of(value.reshape(-1), item.kind(index)).astype(np.float32)


def _with_operand(whole: ProgramView, item: OperatorView, threads: int) -> tuple[Kernel, tuple[int, ...]]:
    """Return a sum or difference of 16 bits, or a product or an extreme of any, with what the array does not store.

    The adder takes both in short floats. Measured on 1536 products and on 31,000 sums and differences, all equal: what
    the tensor between cannot hold leaves a trace, which breaks ties. What is
    not stored is a convolution or an average, and may be clamped.
    """
    source, last = (whole.operators[index] for index in (item.operator.joins[0], item.operator.joins[-1]))
    operand = item.operator.inputs.index(last.operator.outputs[0])
    weighted = _product(source, _with_constant(whole, item), threads)
    kind, made, shape = last.made(), item.made(), item.made_shape()
    other, operator = item.kind(1 - operand), BINARY[item.operator.kind]
    factor, sign = scale_of(kind) / scale_of(made), -1.0 if item.operator.kind == "sub" else 1.0
    low, high = (end - zero_of(kind) for end in kind.dtype.integer_range)
    if any(whole.operators[index].operator.kind == "relu" for index in item.operator.joins):
        low = 0

    def run(values: Values) -> AnyArray:
        count = len(given(values))
        exact = weighted.steps(samples_first(given(values)), kind).reshape(count, *shape)
        steps, reals = np.clip(exact, low, high), reals_of(given(values, 1), other)
        if item.operator.kind not in _SUMS:
            return stored_from(np.rint(operator(steps * scale_of(kind), reals) / scale_of(made)), made)
        steps = np.where(steps == exact, steps, steps * _TRACED)
        return stored_from(np.rint(in_stream(steps * factor, sign * reals / scale_of(made))), made)

    return run, (source.operator.inputs[0], item.operator.inputs[1 - operand])


def _with_constant(whole: ProgramView, item: OperatorView) -> OperatorView:
    """Return the sum with a constant among what an operator joins, or else the first of that."""
    joined = [whole.operators[index] for index in item.operator.joins]
    return next((one for one in joined if one.operator.kind == "add"), joined[0])


def _as_output(source: OperatorView, item: OperatorView, kind: str) -> OperatorView:
    """Return an operator that gives what a later one gives."""
    operator: ProgramOperator = replace(source.operator, kind=kind, outputs=item.operator.outputs)
    return OperatorView(source.whole, operator)


def _with_bias(source: OperatorView, item: OperatorView, threads: int) -> Kernel:
    """Return a layer or a convolution to whose bias, if it has one, the constant of the sum behind it is added."""
    layer = _biased(source, _as_output(source, item, source.operator.kind), item, threads)
    kernel, shape = weighted_kernel(layer), item.made_shape()
    return lambda values: kernel(values).reshape(-1, *shape)


def _biased(source: OperatorView, seen: OperatorView, item: OperatorView, threads: int) -> WeightedSum:
    """Return the layer or convolution with the constant of a sum in its bias, in steps of the accumulators."""
    position = 0 if item.is_constant(0) else 1
    constant, weight = item.constant(position), source.kind(1).quant
    assert constant is not None
    assert weight is not None
    scales = scale_of(source.kind()) * np.asarray(weight.scale)
    steps = np.rint(reals_of(constant.reshape(-1), item.kind(position)) / scales)
    own = source.constant(2)
    if own is None or source.kind(2).dtype is not DType.I64:
        # The vendor's compiler makes what does not fit the least integer, of either sign.
        steps = np.where(np.abs(steps) < _TOO_LARGE, steps, -_TOO_LARGE)
    if own is not None:
        steps = steps + own.astype(np.float64)
    return _PRODUCTS[seen.operator.kind](seen, threads, steps)


def _stored_once(source: OperatorView, item: OperatorView, threads: int) -> Kernel:
    """Return a convolution that is stored as what it is converted to; a ReLU between them leaves nothing below 0."""
    weighted, made, clamped = convolution(source, threads), item.made(), len(item.operator.joins) > 1

    def run(values: Values) -> AnyArray:
        steps = weighted.steps(samples_first(given(values)), made)
        return with_samples(Store(made).from_steps(np.maximum(steps, 0.0) if clamped else steps), len(given(values)))

    return run


def _clamped_once(whole: ProgramView, item: OperatorView, threads: int) -> Kernel:
    """Return a convolution that is stored as the ReLU behind it is, which may see it with another shape.

    A stream processor that clamps 16 bits takes them cut to as many bits as float32 has.
    """
    source = whole.operators[item.operator.joins[0]]
    last = whole.operators[item.operator.joins[-1]]
    weighted, made, shape = _product(source, last, threads), item.made(), item.made_shape()
    top = item.floats[1] / scale_of(made) if item.operator.kind == "clip" else math.inf
    is_cut = item.generation is Generation.STREAM and made.dtype is DType.I16

    def run(values: Values) -> AnyArray:
        steps = weighted.steps(samples_first(given(values)), made)
        steps = truncated(steps, _SINGLE_BITS) if is_cut else steps
        return Store(made).from_steps(np.clip(steps, 0.0, top)).reshape(len(given(values)), *shape)

    return run


def _with_function(whole: ProgramView, item: OperatorView, threads: int) -> Kernel:
    """Return a product and a table of the stream processor, which takes its accumulators cut to 16 bits."""
    source, last = (whole.operators[index] for index in (item.operator.joins[0], item.operator.joins[-1]))
    weighted, kind, made, shape = _product(source, last, threads), last.made(), item.made(), item.made_shape()
    scales, back = scales_of(item)
    low, high = ((end - zero_of(kind)) * scale_of(kind) for end in kind.dtype.integer_range)
    span = ReadSpan(weighted.accumulator, low, high)

    def run(values: Values) -> AnyArray:
        steps = weighted.accumulators(samples_first(given(values)))
        found = stream_table(truncated(steps, _STREAM_BITS), item, scales, span=span)
        assert found is not None
        return (found + back).astype(made.dtype.carrier).reshape(len(given(values)), *shape)

    return run


def _with_slope(whole: ProgramView, item: OperatorView, threads: int) -> Kernel:
    """Return a product whose negative results are scaled before they are rounded.

    What it could not store is cut off first, but not where its channels have scales of their own.
    """
    source, last = (whole.operators[index] for index in (item.operator.joins[0], item.operator.joins[-1]))
    made, kind, shape = item.made(), last.made(), item.made_shape()
    weight = source.kind(1).quant if source.has(1) else None
    weighted = _product(source, last, threads)
    slope, output, ends = _slope_of(item), Store(made), kind.dtype.integer_range
    factor = scale_of(kind) / scale_of(made)
    low, high = ((end - zero_of(kind)) * factor for end in ends)
    is_cut = weight is None or len(weight.scale) == 1

    def run(values: Values) -> AnyArray:
        steps = weighted.steps(samples_first(given(values)), made)
        if is_cut:
            steps = np.clip(steps, low, high)
        steps = steps.reshape(len(given(values)), *shape)
        return output.from_steps(np.where(steps < 0, steps * slope, steps))

    return run


def _slope_of(item: OperatorView) -> AnyArray | float:
    """Return the slope of a LeakyRelu, or those of a PRelu, shaped to scale its output."""
    slopes = item.constant(1)
    return float(np.float32(item.floats[0])) if slopes is None else reals_of(slopes, item.kind(1))


def _averaged(source: OperatorView, last: OperatorView) -> Average:
    """Return an average on the array, and in its bias the constant of a sum where the last of a chain is one."""
    if last.operator.kind != "add":
        return average_of(source)
    numbers = _channels(last, 0 if last.is_constant(0) else 1)
    return average_of(source, numbers.reshape((-1, 1, 1)))


def _product(source: OperatorView, last: OperatorView, threads: int) -> WeightedSum | Average:
    """Return a product or an average, with the constant of a sum where the last of the chain is one."""
    if source.operator.kind in _AVERAGES:
        return _averaged(source, last)
    if last.operator.kind == "add":
        return _biased(source, source, last, threads)
    return _PRODUCTS[source.operator.kind](source, threads, None)
