"""From real numbers and accumulators to stored integers, vectorised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.backend.arithmetic import Carrier, Rounding, Tie, ZeroPointOrder
from dovetail.ir import AnyArray, DType, TensorType


def round_in_place(values: AnyArray, tie: Tie) -> None:
    """Round float64 values to integers in place; every mode is exact."""
    if tie is Tie.EVEN:
        np.rint(values, out=values)
        return
    whole = np.trunc(values)
    # What is left lies below 1 in size and is exact, as are the comparisons.
    np.subtract(values, whole, out=values)
    whole += values >= 0.5
    whole -= values <= -0.5 if tie is Tie.AWAY else values < -0.5
    values[...] = whole


@dataclass(frozen=True, slots=True)
class Store:
    """Turn real values in units of the output scale into stored integers of a type."""

    kind: TensorType
    rounding: Rounding

    def from_steps(self, steps: AnyArray) -> AnyArray:
        """Return stored integers; `steps` is real / scale in float64 and is overwritten."""
        assert self.kind.quant is not None
        lowest, highest = self.kind.dtype.integer_range
        zero = self.kind.quant.zero_point_array(steps.ndim)
        if self.rounding.carrier is Carrier.SINGLE:
            return self._from_single_steps(np.asarray(steps, np.float32))
        early = self.rounding.zero_point is ZeroPointOrder.BEFORE
        shifts = bool(np.any(zero))
        if shifts and early:
            steps += zero
        round_in_place(steps, self.rounding.tie)
        if shifts and not early:
            steps += zero
        np.clip(steps, lowest, highest, out=steps)
        return steps.astype(self.kind.dtype.carrier)

    def from_reals(self, reals: AnyArray) -> AnyArray:
        """Return the stored integers of real values; NaN becomes 0."""
        assert self.kind.quant is not None
        if self.rounding.carrier is Carrier.SINGLE:
            return self._from_singles(np.asarray(reals, np.float32))
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.divide(reals, self.kind.quant.scale_array(reals.ndim), dtype=np.float64)
        if not isinstance(steps, np.ndarray):
            steps = np.asarray(steps)
        missing = np.isnan(steps)
        if missing.any():
            stored = self.from_steps(np.where(missing, 0.0, steps))
            stored[missing] = 0
            return stored
        return self.from_steps(steps)

    def _from_singles(self, reals: AnyArray) -> AnyArray:
        """Return the stored integers of float32 values, computed in float32 as the shaders do."""
        assert self.kind.quant is not None
        inverse = np.divide(1.0, self.kind.quant.scale_array(reals.ndim)).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._from_single_steps(np.asarray(reals * inverse))

    def _from_single_steps(self, steps: AnyArray) -> AnyArray:
        assert self.kind.quant is not None
        lowest, highest = self.kind.dtype.integer_range
        zero = self.kind.quant.zero_point_array(steps.ndim).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            early = self.rounding.zero_point is ZeroPointOrder.BEFORE
            whole = np.asarray(np.rint(steps + zero) if early else np.rint(steps) + zero)
            whole = np.clip(whole, np.float32(lowest), np.float32(highest))
        stored: AnyArray = np.where(np.isnan(whole), self._no_number(), whole).astype(self.kind.dtype.carrier)
        return stored

    def _no_number(self) -> float:
        """Return what stands for NaN: 0, as a shader sees it, which takes most signed bytes as unsigned ones."""
        assert self.kind.quant is not None
        fixed = np.frexp(self.kind.quant.scale[0])[0] == 0.5 and not any(self.kind.quant.zero_point)
        return -128.0 if self.kind.dtype is DType.I8 and not fixed else 0.0


def reals_of(stored: AnyArray, kind: TensorType) -> AnyArray:
    """Return the real values of a tensor in float64."""
    if kind.quant is None:
        return stored.astype(np.float64)
    reals: AnyArray = (stored.astype(np.float64) - kind.quant.zero_point_array(stored.ndim)) * kind.quant.scale_array(
        stored.ndim
    )
    return reals


def centred(stored: AnyArray, kind: TensorType, dtype: np.dtype[np.generic] | type[np.generic]) -> AnyArray:
    """Return `q - zero_point` as floats that hold it exactly (or as int64)."""
    assert kind.quant is not None
    values: AnyArray = stored.astype(dtype)
    zero = kind.quant.zero_point_array(stored.ndim)
    if np.any(zero):
        values -= zero.astype(dtype)
    return values


def largest_size(kind: TensorType) -> int:
    """Return the largest |q - zero_point| that a quantised type can hold."""
    assert kind.quant is not None
    lowest, highest = kind.dtype.integer_range
    return max(max(highest - zero, zero - lowest) for zero in kind.quant.zero_point)
