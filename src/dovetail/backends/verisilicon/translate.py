"""Between our tensors and the vendor's: order of dimensions, axes, element types and quantisation. Nowhere else.

ONNX counts dimensions slowest first, the vendor fastest first; the bytes of a tensor are the same in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.backends.verisilicon.program import Code, Quant, StoredForm
from dovetail.ir import AnyArray, DType, Quantization, TensorType

_CODES = {
    DType.F32: Code.F32,
    DType.F16: Code.F16,
    DType.BF16: Code.BF16,
    DType.I8: Code.I8,
    DType.U8: Code.U8,
    DType.I16: Code.I16,
    DType.I32: Code.I32,
    DType.I64: Code.I32,
    DType.U32: Code.U32,
    DType.BOOL: Code.BOOL,
}
"""Indices are 32 bits wide there; the numbers are checked when they are converted."""

_CARRIERS: dict[Code, np.dtype[Any]] = {
    Code.F32: np.dtype("<f4"),
    Code.F16: np.dtype("<f2"),
    Code.BF16: np.dtype("<u2"),
    Code.I8: np.dtype("i1"),
    Code.U8: np.dtype("u1"),
    Code.I16: np.dtype("<i2"),
    Code.U16: np.dtype("<u2"),
    Code.I32: np.dtype("<i4"),
    Code.U32: np.dtype("<u4"),
    Code.I64: np.dtype("<i8"),
    Code.BOOL: np.dtype("u1"),
}


def vendor_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape fastest dimension first; a scalar becomes one element."""
    return tuple(reversed(shape)) or (1,)


def vendor_axis(axis: int, rank: int) -> int:
    """Return an axis counted from the fastest dimension; raise ValueError outside the rank."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of a tensor with {rank} dimensions")
    return rank - 1 - axis % rank


def vendor_order(order: Sequence[int]) -> tuple[int, ...]:
    """Return a permutation of dimensions in the vendor's counting."""
    rank = len(order)
    return tuple(rank - 1 - axis for axis in reversed(order))


def fraction_bits(quant: Quantization) -> int | None:
    """Return fl where a scale is 2**-fl and the zero point is 0, else None."""
    if quant.axis is not None or quant.zero_point[0] != 0:
        return None
    mantissa, exponent = math.frexp(quant.scale[0])
    return 1 - exponent if mantissa == 0.5 and -127 <= 1 - exponent <= 127 else None


def vendor_form(kind: TensorType, *, fixed_point: bool = False) -> StoredForm:
    """Return how the vendor names a tensor's form; raise ValueError with the reason when it has none.

    With `fixed_point` 8-bit and bias tensors become dynamic fixed point where their scale allows it.
    """
    code = _CODES.get(kind.dtype)
    if code is None:
        raise ValueError(f"the driver has no element type {kind.dtype.value}")
    quant = kind.quant
    if quant is None:
        return StoredForm(code)
    if kind.dtype is DType.I64:
        code = Code.I64
    if quant.axis is not None:
        axis = vendor_axis(quant.axis, len(kind.shape or ()))
        if any(quant.zero_point):
            return StoredForm(code, Quant.CHANNEL_AFFINE, scales=quant.scale, zero_points=quant.zero_point, axis=axis)
        return StoredForm(code, Quant.CHANNEL_SYMMETRIC, scales=quant.scale, axis=axis)
    bits = fraction_bits(quant)
    if kind.dtype is DType.I16 or fixed_point:
        if bits is not None:
            return StoredForm(code, Quant.FIXED_POINT, fl=bits)
        if kind.dtype is DType.I16:
            raise ValueError("16-bit tensors have a power of two as scale and no zero point there (i16)")
    return StoredForm(code, Quant.AFFINE, scale=quant.scale[0], zero_point=quant.zero_point[0])


def real_form(form: StoredForm) -> Quantization | None:
    """Return the quantisation that a form stands for, its axis still in the vendor's counting."""
    match form.quant:
        case Quant.NONE:
            return None
        case Quant.AFFINE:
            return Quantization((form.scale,), (form.zero_point,))
        case Quant.FIXED_POINT:
            return Quantization((math.ldexp(1.0, -form.fl),), (0,))
        case Quant.CHANNEL_SYMMETRIC:
            return Quantization(form.scales, (0,) * len(form.scales), form.axis)
        case Quant.CHANNEL_AFFINE:
            return Quantization(form.scales, form.zero_points, form.axis)


def to_vendor(value: AnyArray, code: Code) -> bytes:
    """Return an array's bytes in the vendor's element type; raise ValueError when a number does not fit."""
    carrier = _CARRIERS[code]
    if code is Code.BF16:
        bits: AnyArray = np.ascontiguousarray(value, dtype=np.float32).view(np.uint32)
        return (bits >> np.uint32(16)).astype("<u2").tobytes()
    if value.dtype.kind in "iu" and carrier.kind in "iu" and value.size:
        info = np.iinfo(carrier)
        if int(value.min()) < info.min or int(value.max()) > info.max:
            raise ValueError(f"a value lies outside {info.min}..{info.max}")
    return np.ascontiguousarray(value).astype(carrier, copy=False).tobytes()


def from_vendor(data: bytes | memoryview, code: Code, kind: TensorType, shape: tuple[int, ...]) -> AnyArray:
    """Return the array of a tensor from the vendor's bytes."""
    raw: AnyArray = np.frombuffer(data, dtype=_CARRIERS[code]).reshape(shape)
    if code is Code.BF16:
        widened: AnyArray = (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return widened.reshape(shape)
    if code is Code.BOOL:
        return np.asarray(raw != 0)
    return raw.astype(kind.dtype.carrier)
