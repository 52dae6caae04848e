"""Types of tensors: element type, shape and quantisation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.ir.dtypes import AnyArray, DType

Dim = int | str | None
"""A size, the name of a symbolic size, or None where nothing is known."""

Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Quantization:
    """Map stored integers q to real values: `(q - zero_point) * scale`.

    One scale for the whole tensor when `axis` is None, else one per index of that axis.
    Scales are values that float32 can hold.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @property
    def per_channel(self) -> bool:
        """Tell whether there is one scale per index of `axis`."""
        return self.axis is not None

    def scale_array(self, rank: int) -> AnyArray:
        """Return the scales as float64, shaped to broadcast against a tensor of this rank."""
        return self._spread(np.asarray(self.scale, dtype=np.float64), rank)

    def zero_point_array(self, rank: int) -> AnyArray:
        """Return the zero points as int64, shaped to broadcast against a tensor of this rank."""
        return self._spread(np.asarray(self.zero_point, dtype=np.int64), rank)

    def _spread(self, values: AnyArray, rank: int) -> AnyArray:
        if self.axis is None:
            return values.reshape(())
        shape = [1] * rank
        shape[self.axis] = len(values)
        return values.reshape(shape)


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a tensor; `shape` is None when even the rank is unknown."""

    dtype: DType
    shape: Shape | None
    quant: Quantization | None = None

    @property
    def rank(self) -> int | None:
        """Return the number of dimensions, or None when it is unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """Return the shape when every size is a number, else None."""
        if self.shape is None or not all(isinstance(dim, int) for dim in self.shape):
            return None
        return tuple(dim for dim in self.shape if isinstance(dim, int))

    @property
    def holds_reals(self) -> bool:
        """Tell whether the tensor stands for real numbers: float, or quantised."""
        return self.dtype.is_float or self.quant is not None

    def size_bytes(self, batch: int = 1) -> int | None:
        """Return the bytes of the tensor with every symbolic size taken as `batch`."""
        if self.shape is None or any(dim is None for dim in self.shape):
            return None
        return math.prod(dim if isinstance(dim, int) else batch for dim in self.shape) * self.dtype.size_bytes


def quantize_array(real: AnyArray, dtype: DType, quant: Quantization) -> AnyArray:
    """Quantise real values: `clip(rint(x / scale) + zero_point)`, ties to even.

    The division is done in float32 when the input is float32, as ONNX QuantizeLinear does.
    """
    kind = np.dtype(np.float64 if real.dtype == np.float64 else np.float32)
    scale: AnyArray = quant.scale_array(real.ndim).astype(kind)
    lowest, highest = dtype.integer_range
    ratio: AnyArray = np.divide(real.astype(kind, copy=False), scale)
    steps = np.rint(ratio).astype(np.float64) + quant.zero_point_array(real.ndim)
    clipped: AnyArray = np.clip(steps, lowest, highest).astype(dtype.carrier)
    return clipped


def dequantize_array(stored: AnyArray, quant: Quantization) -> AnyArray:
    """Return the real values of stored integers in float32."""
    centred = stored.astype(np.int64) - quant.zero_point_array(stored.ndim)
    real: AnyArray = centred.astype(np.float32) * quant.scale_array(stored.ndim).astype(np.float32)
    return real
