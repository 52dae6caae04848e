"""Conversions between number formats: QuantizeLinear, DequantizeLinear, Requantize, Cast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backends.npusim.elementwise import RealRoute, Table, all_values
from dovetail.backends.npusim.kernel import Kernel, NodeContext, Values, given
from dovetail.backends.npusim.rounding import Store, reals_of
from dovetail.ir import AnyArray, DType, TensorType, dequantize_array
from dovetail.ir.dtypes import round_to_bf16


@dataclass(frozen=True, slots=True)
class Quantize:
    """Quantise float32 as ONNX does: the division is done in float32."""

    store: Store

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the stored output."""
        real, quant = given(values, 0), self.store.kind.quant
        assert quant is not None
        if real.dtype == np.float64:
            return (self.store.from_reals(real),)
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = np.divide(real.astype(np.float32), quant.scale_array(real.ndim).astype(np.float32))
        steps = np.asarray(ratio).astype(np.float64)
        missing = np.isnan(steps)
        if not missing.any():
            return (self.store.from_steps(steps),)
        stored = self.store.from_steps(np.where(missing, 0.0, steps))
        stored[missing] = 0
        return (stored,)


@dataclass(frozen=True, slots=True)
class Dequantize:
    """Dequantise to the float type of the output."""

    kind: TensorType
    output: DType

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the real values."""
        assert self.kind.quant is not None
        real = dequantize_array(given(values, 0), self.kind.quant)
        return (as_float(real, self.output),)


@dataclass(frozen=True, slots=True)
class Cast:
    """Convert between float types, or as numpy does."""

    output: DType

    def __call__(self, values: Values) -> Sequence[AnyArray]:
        """Return the converted values."""
        return (as_float(given(values, 0), self.output),)


def as_float(values: AnyArray, output: DType) -> AnyArray:
    """Return values in the carrier of an element type, rounded to it."""
    if output is DType.BF16:
        return round_to_bf16(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(output.carrier)


def build_quantize(context: NodeContext) -> Kernel | None:
    """Return the kernel of QuantizeLinear between tensor types, or None for plain ONNX."""
    if context.output_kind().quant is None or context.input_kind(0).quant is not None or len(context.node.inputs) > 1:
        return None
    return Quantize(context.store())


def build_dequantize(context: NodeContext) -> Kernel | None:
    """Return the kernel of DequantizeLinear between tensor types, or None for plain ONNX."""
    kind = context.input_kind(0)
    if kind.quant is None or len(context.node.inputs) > 1:
        return None
    plain = Dequantize(kind, context.output_kind().dtype)
    if kind.quant.per_channel or kind.dtype.size_bytes > 1:
        return plain
    return Table(0, plain((all_values(kind),))[0])


def build_requantize(context: NodeContext) -> Kernel | None:
    """Return the kernel of Requantize."""
    return requantizer(context.input_kind(0), context.store())


def build_cast(context: NodeContext) -> Kernel | None:
    """Return the kernel of Cast between float types, or None for plain ONNX."""
    kinds = context.input_kind(0), context.output_kind()
    return Cast(kinds[1].dtype) if all(kind.dtype.is_float for kind in kinds) else None


def requantizer(before: TensorType, store: Store) -> Kernel:
    """Return what takes stored values of one quantised type to another."""
    assert before.quant is not None
    if (
        before.quant.per_channel
        or before.dtype.size_bytes > 2
        or store.kind.quant is None
        or store.kind.quant.per_channel
    ):
        return RealRoute(lambda values: (given(values, 0),), (before,), (store,))
    return Table(0, store.from_reals(reals_of(all_values(before), before)))
