"""Precisions: the pair of number formats (activations, weights) that a node computes with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from dovetail.ir.dtypes import DType


class Precision(Enum):
    """An activation and weight format; the value is the name that people write."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    U8 = "u8"
    I8 = "i8"
    I8PC = "i8pc"
    I8DFP = "i8dfp"
    I16 = "i16"
    W8A16 = "w8a16"

    # As for DType.
    __hash__ = object.__hash__

    @property
    def activation(self) -> NumberFormat:
        """Return the format of activations."""
        return _FORMATS[self][0]

    @property
    def weight(self) -> NumberFormat:
        """Return the format of constant weights."""
        return _FORMATS[self][1]

    @property
    def bias(self) -> DType:
        """Return the element type of a bias: a wide integer at scale `s_x * s_w`, or the activation's float."""
        if not self.is_quantized:
            return self.activation.dtype
        return DType.I64 if self.activation.dtype is DType.I16 else DType.I32

    @property
    def is_quantized(self) -> bool:
        """Tell whether activations are stored as integers."""
        return self.activation.dtype.is_integer

    @property
    def bits(self) -> int:
        """Return the bits of one activation."""
        return 8 * self.activation.dtype.size_bytes


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How reals are stored.

    `power_of_two`: the scale is 2**-fl and the zero point is 0 (dynamic fixed point).
    """

    dtype: DType
    symmetric: bool = False
    per_channel: bool = False
    power_of_two: bool = False

    key: str = field(init=False, repr=False, compare=False)
    """A short name for tensors stored so, such as `i16dfp`."""

    def __post_init__(self) -> None:
        kind = "dfp" if self.power_of_two else "sym" if self.symmetric else ""
        words = "" if self.dtype.is_float else kind + ("pc" if self.per_channel else "")
        object.__setattr__(self, "key", self.dtype.value + words)


def _float(dtype: DType) -> tuple[NumberFormat, NumberFormat]:
    return NumberFormat(dtype), NumberFormat(dtype)


_I8_PER_CHANNEL = NumberFormat(DType.I8, symmetric=True, per_channel=True)
_I8_DFP = NumberFormat(DType.I8, symmetric=True, power_of_two=True)
_I16_DFP = NumberFormat(DType.I16, symmetric=True, power_of_two=True)

_FORMATS: dict[Precision, tuple[NumberFormat, NumberFormat]] = {
    Precision.FP32: _float(DType.F32),
    Precision.FP16: _float(DType.F16),
    Precision.BF16: _float(DType.BF16),
    Precision.U8: (NumberFormat(DType.U8), NumberFormat(DType.U8)),
    Precision.I8: (NumberFormat(DType.I8), NumberFormat(DType.I8, symmetric=True)),
    Precision.I8PC: (NumberFormat(DType.I8), _I8_PER_CHANNEL),
    Precision.I8DFP: (_I8_DFP, _I8_DFP),
    Precision.I16: (_I16_DFP, _I16_DFP),
    Precision.W8A16: (NumberFormat(DType.I16, symmetric=True), _I8_PER_CHANNEL),
}
