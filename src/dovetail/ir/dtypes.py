"""Element types of tensors."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import numpy as np

AnyArray = np.ndarray[Any, np.dtype[Any]]
_STORED = re.compile(r"[<>|=][A-Za-z?][0-9]*")


class DType(Enum):
    """An element type; the value is its spelling in the text form.

    `bf16` has no numpy type: its carrier is float32 holding only values that bfloat16 can hold.
    """

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    BOOL = "bool"

    # Members are single objects: their identity is as good as the hash of their name, and searches hash millions.
    __hash__ = object.__hash__

    @property
    def carrier(self) -> np.dtype[Any]:
        """Return the numpy type that holds the elements in memory."""
        return _CARRIERS[self]

    @property
    def size_bytes(self) -> int:
        """Return the bytes of one element on a device."""
        return 2 if self is DType.BF16 else self.carrier.itemsize

    @property
    def is_float(self) -> bool:
        """Tell whether the elements are floating point."""
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        """Tell whether the elements are integers (bool is not)."""
        return self not in _FLOATS and self is not DType.BOOL

    @property
    def integer_range(self) -> tuple[int, int]:
        """Return the smallest and largest value of an integer type."""
        return _RANGES[self]

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> DType:
        """Return the element type of a numpy type; raise KeyError when there is none."""
        return _BY_CARRIER[np.dtype(dtype)]


_FLOATS = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
_CARRIERS: dict[DType, np.dtype[Any]] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(np.float32),
    DType.I8: np.dtype(np.int8),
    DType.U8: np.dtype(np.uint8),
    DType.I16: np.dtype(np.int16),
    DType.U16: np.dtype(np.uint16),
    DType.I32: np.dtype(np.int32),
    DType.U32: np.dtype(np.uint32),
    DType.I64: np.dtype(np.int64),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
}
_RANGES = {
    dtype: (int(np.iinfo(carrier).min), int(np.iinfo(carrier).max))
    for dtype, carrier in _CARRIERS.items()
    if carrier.kind in "iu"
}
_BY_CARRIER = {carrier: dtype for dtype, carrier in _CARRIERS.items() if dtype is not DType.BF16}


def round_to_bf16(array: AnyArray) -> AnyArray:
    """Round float32 values to the nearest bfloat16, ties to even, and keep them in float32."""
    bits = np.asarray(array, dtype=np.float32, order="C").view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    result = rounded.view(np.float32)
    return np.where(np.isnan(array), np.float32(np.nan), result).astype(np.float32)


def stored_type(text: str) -> np.dtype[Any]:
    """Return the numpy type that `dtype.str` wrote; raise ValueError or TypeError for anything else.

    Given any text, numpy reads lists of types in a language of its own, and ends with whatever Python's parser raises.
    """
    if _STORED.fullmatch(text) is None:
        raise ValueError(f"there are no elements of type {text}")
    return np.dtype(text)
