"""What the vendor's compiler computes as one: sums and slopes with the products before them, gates with theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.backends.verisilicon.emulator.convolving import convolution, weighted_kernel
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values, given, samples_first, with_samples
from dovetail.backends.verisilicon.emulator.multiplying import fully_connected
from dovetail.backends.verisilicon.emulator.operators import build_kernel
from dovetail.backends.verisilicon.emulator.storing import Store, reals_of
from dovetail.backends.verisilicon.emulator.sums import build_joined_sum
from dovetail.backends.verisilicon.program import ProgramOperator
from dovetail.backends.verisilicon.views import OperatorView, ProgramView, scale_of, zero_of
from dovetail.ir import AnyArray

_TOO_LARGE = 2.0**31


def build_joined(whole: ProgramView, item: OperatorView, threads: int) -> tuple[Kernel, tuple[int, ...]]:
    """Return the kernel of an operator with the earlier ones that it joins, and the tensors that it reads."""
    source = whole.operators[item.operator.joins[0]]
    if item.operator.kind == "mul":
        return build_kernel(_as_output(source, item, "swish"), threads), source.operator.inputs
    if source.operator.kind == "fully_connected":
        return _with_bias(source, item, threads), source.operator.inputs[:1]
    if item.operator.kind == "leaky_relu":
        return _with_slope(source, item, threads), source.operator.inputs[:1]
    last = item.operator.joins[-1]
    operand = item.operator.inputs.index(whole.program.operators[last].outputs[0])
    total = build_joined_sum(item, operand, clamped=len(item.operator.joins) > 1)
    weighted, made = convolution(source, threads), item.made()

    def run(values: Values) -> AnyArray:
        steps = weighted.steps(samples_first(given(values)), made)
        return total(with_samples(steps, len(given(values))), given(values, 1))

    return run, (source.operator.inputs[0], item.operator.inputs[1 - operand])


def _as_output(source: OperatorView, item: OperatorView, kind: str) -> OperatorView:
    """Return an operator that gives what a later one gives."""
    operator: ProgramOperator = replace(source.operator, kind=kind, outputs=item.operator.outputs)
    return OperatorView(source.whole, operator)


def _with_bias(source: OperatorView, item: OperatorView, threads: int) -> Kernel:
    """Return a layer whose bias is the constant of the sum behind it, in steps of the accumulators."""
    position = 0 if item.is_constant(0) else 1
    constant, weight = item.constant(position), source.kind(1).quant
    assert constant is not None
    assert weight is not None
    steps = np.rint(reals_of(constant.reshape(-1), item.kind(position)) / (scale_of(source.kind()) * weight.scale[0]))
    # The vendor's compiler makes what does not fit the least integer, of either sign.
    steps = np.where(np.abs(steps) < _TOO_LARGE, steps, -_TOO_LARGE)
    layer = fully_connected(_as_output(source, item, "fully_connected"), threads, steps)
    kernel, shape = weighted_kernel(layer), item.made_shape()
    return lambda values: kernel(values).reshape(-1, *shape)


def _with_slope(source: OperatorView, item: OperatorView, threads: int) -> Kernel:
    """Return a convolution whose negative results are scaled before they are rounded.

    What it could not store is cut off first, but not where its channels have scales of their own.
    """
    weighted, made, kind, weight = convolution(source, threads), item.made(), source.made(), source.kind(1).quant
    slope, output, ends = float(np.float32(item.floats[0])), Store(made), kind.dtype.integer_range
    factor = scale_of(kind) / scale_of(made)
    low, high = ((end - zero_of(kind)) * factor for end in ends)
    is_cut = weight is not None and len(weight.scale) == 1

    def run(values: Values) -> AnyArray:
        steps = weighted.steps(samples_first(given(values)), made)
        if is_cut:
            steps = np.clip(steps, low, high)
        return with_samples(output.from_steps(np.where(steps < 0, steps * slope, steps)), len(given(values)))

    return run
