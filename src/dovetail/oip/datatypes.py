"""The protocol's names of element types, and elements as bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.errors import DeviceError
from dovetail.ir.dtypes import AnyArray, DType, round_to_bf16

DATATYPES = {
    DType.BOOL: "BOOL",
    DType.U8: "UINT8",
    DType.U16: "UINT16",
    DType.U32: "UINT32",
    DType.U64: "UINT64",
    DType.I8: "INT8",
    DType.I16: "INT16",
    DType.I32: "INT32",
    DType.I64: "INT64",
    DType.F16: "FP16",
    DType.BF16: "BF16",
    DType.F32: "FP32",
    DType.F64: "FP64",
}
"""What the protocol calls an element type."""

_MOST_DIMS = 32


def dtype_named(datatype: str) -> DType | None:
    """Return the element type that the protocol calls so; None for one that is unknown, or no number."""
    return next((kind for kind, name in DATATYPES.items() if name == datatype), None)


def check_datatype(name: str, kind: DType, datatype: str) -> None:
    """Raise DeviceError where a tensor comes as another type than the model reads."""
    if datatype != DATATYPES[kind]:
        raise DeviceError(f"input '{name[:80]}' is {datatype[:20] or 'of no type'}; {DATATYPES[kind]} is expected.")


def count_of(name: str, shape: Sequence[int]) -> int:
    """Return the elements of a shape that a peer states; raise DeviceError where it is none."""
    if len(shape) > _MOST_DIMS or any(dim < 0 for dim in shape):
        raise DeviceError(f"input '{name[:80]}': {list(shape)[:8]} is no shape.")
    return math.prod(shape)


def pack(array: AnyArray, kind: DType) -> bytes:
    """Return the elements of an array as the protocol's raw bytes: row by row, little-endian."""
    if kind is DType.BF16:
        bits = np.ascontiguousarray(round_to_bf16(array)).view(np.uint32) >> np.uint32(16)
        return bits.astype("<u2").tobytes()
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def unpack(name: str, raw: bytes | memoryview, kind: DType, shape: Sequence[int]) -> AnyArray:
    """Return the array in raw bytes, read-only where no copy is needed.

    Raises DeviceError where the bytes are not those of the shape: nothing is allocated by what a peer states.
    """
    count = count_of(name, shape)
    if count * kind.size_bytes != len(raw):
        raise DeviceError(
            f"input '{name[:80]}' has {len(raw)} bytes; {DATATYPES[kind]} {list(shape)[:8]} takes "
            f"{count * kind.size_bytes}."
        )
    if kind is DType.BF16:
        bits = np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)
        return bits.view(np.float32).reshape(tuple(shape))
    array: AnyArray = np.frombuffer(raw, kind.carrier.newbyteorder("<")).astype(kind.carrier, copy=False)
    if kind is DType.BOOL and not np.all(array.view(np.uint8) <= 1):
        raise DeviceError(f"input '{name[:80]}': bytes of BOOL are 0 or 1.")
    return (array if array.flags.aligned else array.copy()).reshape(tuple(shape))


def from_numbers(name: str, numbers: object, kind: DType, shape: Sequence[int]) -> AnyArray:
    """Return the array of numbers in a list, nested or flat; raise DeviceError where they do not fit type and shape."""
    try:
        found = np.asarray(numbers)
    except (ValueError, OverflowError) as error:
        raise DeviceError(f"input '{name[:80]}': lists of unequal lengths are no tensor.") from error
    if kind is DType.U64 and found.dtype.kind == "f":
        # Numbers on both sides of 2^63 have no integer type of numpy's choice.
        whole = np.asarray(numbers, object)
        if all(type(number) is int and 0 <= number < 1 << 64 for number in whole.flat):
            found = whole.astype(np.uint64)
    count = count_of(name, shape)
    if found.size != count:
        raise DeviceError(f"input '{name[:80]}' has {found.size} elements; {list(shape)[:8]} takes {count}.")
    if found.size == 0:
        return np.zeros(tuple(shape), kind.carrier)
    fits = found.dtype.kind in ("iuf" if kind.is_float else "iu" if kind.is_integer else "b")
    if fits and kind.is_integer:
        low, high = kind.integer_range
        fits = low <= int(found.min()) and int(found.max()) <= high
    if not fits:
        raise DeviceError(f"input '{name[:80]}': its elements are no {DATATYPES[kind]}.")
    with np.errstate(over="ignore"):
        array: AnyArray = found.astype(kind.carrier)
    return (round_to_bf16(array) if kind is DType.BF16 else array).reshape(tuple(shape))
