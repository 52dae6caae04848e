"""From real numbers and accumulators to stored integers, vectorised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.views import OperatorView, quant_of, scale_of
from dovetail.ir import AnyArray, DType, TensorType

MIDDLE = 128
"""What a shader adds to signed bytes, which it computes as unsigned ones."""


@dataclass(frozen=True, slots=True)
class Store:
    """Turn real values in units of the output scale into stored integers of a type; ties go to even."""

    kind: TensorType
    moved_before: bool = False
    """The zero point is added before rounding, which matters for ties."""
    single: bool = False
    """The result, its product with the reciprocal of the scale and the sum with the zero point are float32."""
    shift: int = 0
    """Added to a zero point in float32, and taken off the stored integer: of signed bytes seen as unsigned ones."""

    def from_steps(self, steps: AnyArray) -> AnyArray:
        """Return stored integers; `steps` is real / scale in float64 and is overwritten."""
        lowest, highest = self.kind.dtype.integer_range
        zero = quant_of(self.kind).zero_point_array(steps.ndim)
        if self.single:
            return self._from_single_steps(np.asarray(steps, np.float32))
        shifts = bool(np.any(zero))
        if shifts and self.moved_before:
            steps += zero
        np.rint(steps, out=steps)
        if shifts and not self.moved_before:
            steps += zero
        np.clip(steps, lowest, highest, out=steps)
        return steps.astype(self.kind.dtype.carrier)

    def from_reals(self, reals: AnyArray) -> AnyArray:
        """Return the stored integers of real values; NaN becomes 0."""
        if self.single:
            return self._from_singles(np.asarray(reals, np.float32))
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.divide(reals, scale_of(self.kind), dtype=np.float64)
        missing = np.isnan(steps)
        if missing.any():
            stored = self.from_steps(np.where(missing, 0.0, steps))
            stored[missing] = 0
            return stored
        return self.from_steps(np.asarray(steps))

    def _from_singles(self, reals: AnyArray) -> AnyArray:
        """Return the stored integers of float32 values, computed in float32 as the shaders do."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._from_single_steps(np.asarray(reals * np.float32(1.0 / scale_of(self.kind))))

    def _from_single_steps(self, steps: AnyArray) -> AnyArray:
        lowest, highest = self.kind.dtype.integer_range
        zero = np.float32(quant_of(self.kind).zero_point[0] + self.shift)
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.asarray(np.rint(steps + zero) if self.moved_before else np.rint(steps) + zero) - self.shift
            whole = np.clip(whole, np.float32(lowest), np.float32(highest))
        stored: AnyArray = np.where(np.isnan(whole), self._no_number(), whole).astype(self.kind.dtype.carrier)
        return stored

    def _no_number(self) -> float:
        """Return what stands for NaN: 0, as a shader sees it, which takes most signed bytes as unsigned ones."""
        quant = quant_of(self.kind)
        fixed = np.frexp(quant.scale[0])[0] == 0.5 and not any(quant.zero_point)
        return -128.0 if self.kind.dtype is DType.I8 and not fixed else 0.0


def store_of(item: OperatorView, *, exact: bool = False) -> Store:
    """Return how an operator's output is stored by shaders, or by the stream processor of a part that has one.

    `exact`: their order of operations loses nothing that float64 keeps (sums and averages); ours in float32 would.
    """
    shift = MIDDLE if item.made().dtype is DType.I8 and not item.in_fixed_point else 0
    return Store(item.made(), item.generation is not Generation.STREAM, not exact, shift)


def reals_of(stored: AnyArray, kind: TensorType) -> AnyArray:
    """Return the real values of a tensor in float64."""
    if kind.quant is None:
        return stored.astype(np.float64)
    reals: AnyArray = (stored.astype(np.float64) - kind.quant.zero_point[0]) * kind.quant.scale[0]
    return reals


def reals_in_shaders(stored: AnyArray, item: OperatorView, index: int = 0) -> AnyArray:
    """Return an operand of bytes in float32 as shaders read it: its product with the scale, less that of its zero."""
    kind = item.kind(index)
    shift = np.float32(MIDDLE if kind.dtype is DType.I8 and not item.in_fixed_point else 0)
    scale, zero = np.float32(scale_of(kind)), np.float32(quant_of(kind).zero_point[0])
    return np.asarray((stored.astype(np.float32) + shift) * scale - (zero + shift) * scale)


def centred(stored: AnyArray, kind: TensorType, dtype: np.dtype[np.generic] | type[np.generic] = np.int64) -> AnyArray:
    """Return `q - zero_point` in a type that holds it exactly."""
    values: AnyArray = stored.astype(dtype)
    zero = quant_of(kind).zero_point_array(stored.ndim)
    if np.any(zero):
        values -= zero.astype(dtype)
    return values


def largest_size(kind: TensorType) -> int:
    """Return the largest |q - zero_point| that a quantised type can hold."""
    lowest, highest = kind.dtype.integer_range
    return max(max(highest - zero, zero - lowest) for zero in quant_of(kind).zero_point)


def stored_from(steps: AnyArray, kind: TensorType) -> AnyArray:
    """Return stored integers of whole steps around the zero point."""
    return np.asarray(
        np.clip(steps + quant_of(kind).zero_point[0], *kind.dtype.integer_range).astype(kind.dtype.carrier)
    )
