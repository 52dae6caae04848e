"""Tensors of ONNX files as numpy arrays; sizes are checked against the bytes present before anything is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto

from dovetail.errors import LoadError
from dovetail.ir import AnyArray, DType
from dovetail.ir.codes import DTYPE_OF_CODE, ONNX_CODES

_NAMES = {code: name.lower() for name, code in TensorProto.DataType.items()}
_HOLDS_BITS = (DType.F16, DType.BF16)
_INT32_FIELD = (DType.I32, DType.I16, DType.I8, DType.U16, DType.U8, DType.BOOL, *_HOLDS_BITS)


@dataclass(frozen=True, slots=True)
class Stored:
    """A constant with the element type that its array alone cannot tell (bf16 is carried as float32)."""

    dtype: DType
    array: AnyArray


def element_type(code: int, where: str) -> DType:
    """Return the element type of an ONNX type number; raise LoadError when Dovetail has no such type."""
    dtype = DTYPE_OF_CODE.get(code)
    if dtype is None:
        raise LoadError(
            f"{where} has element type {_NAMES.get(code, code)}, which Dovetail does not represent.",
            hint="Export the model with float, integer or bool tensors.",
        )
    return dtype


def read_tensor(tensor: TensorProto, folder: Path | None, where: str) -> Stored:
    """Return the value of a tensor; `folder` is where its external data may lie. Raises LoadError."""
    dtype = element_type(tensor.data_type, where)
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape) or len(shape) > 16:
        raise LoadError(f"{where} has the impossible shape {list(shape)}.")
    if tensor.HasField("segment"):
        raise LoadError(f"{where} is split into segments, which no ONNX tool writes.")
    count = math.prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _from_bytes(_external_bytes(tensor, folder, count * dtype.size_bytes, where), dtype, shape, where)
    if tensor.HasField("raw_data"):
        return _from_bytes(tensor.raw_data, dtype, shape, where)
    return _from_fields(tensor, dtype, shape, where)


def _from_bytes(data: bytes, dtype: DType, shape: tuple[int, ...], where: str) -> Stored:
    expected = math.prod(shape) * dtype.size_bytes
    if len(data) != expected:
        raise LoadError(f"{where} holds {len(data)} bytes but its shape {list(shape)} needs {expected}.")
    if dtype is DType.BF16:
        return Stored(dtype, _widen(np.frombuffer(data, dtype="<u2")).reshape(shape))
    if dtype is DType.BOOL:
        return Stored(dtype, (np.frombuffer(data, dtype=np.uint8) != 0).reshape(shape))
    little = np.frombuffer(data, dtype=dtype.carrier.newbyteorder("<"))
    return Stored(dtype, little.astype(dtype.carrier, copy=False).reshape(shape))


def _from_fields(tensor: TensorProto, dtype: DType, shape: tuple[int, ...], where: str) -> Stored:
    if dtype is DType.F32:
        values: AnyArray = np.asarray(tensor.float_data, dtype=np.float32)
    elif dtype is DType.F64:
        values = np.asarray(tensor.double_data, dtype=np.float64)
    elif dtype is DType.I64:
        values = np.asarray(tensor.int64_data, dtype=np.int64)
    elif dtype in _INT32_FIELD:
        values = np.asarray(tensor.int32_data, dtype=np.int32)
    else:
        values = np.asarray(tensor.uint64_data, dtype=np.uint64)
    if values.size != math.prod(shape):
        raise LoadError(f"{where} holds {values.size} values but its shape is {list(shape)}.")
    if dtype is DType.F16:
        values = values.astype(np.uint16).view(np.float16)
    elif dtype is DType.BF16:
        values = _widen(values.astype(np.uint16))
    return Stored(dtype, values.astype(dtype.carrier, copy=False).reshape(shape))


def _widen(bits: AnyArray) -> AnyArray:
    wide: AnyArray = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


def _external_bytes(tensor: TensorProto, folder: Path | None, expected: int, where: str) -> bytes:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise LoadError(f"{where} keeps its data in '{location}', but the model does not come from a file.")
    path = _inside(folder, location, where)
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(expected)))
    except ValueError as error:
        raise LoadError(f"{where}: offset or length of its external data is not a number.") from error
    if length != expected:
        raise LoadError(f"{where} has {length} bytes of external data but its shape needs {expected}.")
    size = path.stat().st_size
    if offset < 0 or length < 0 or offset + length > size:
        raise LoadError(f"{where} lies at {offset}..{offset + length} of '{location}', which has {size} bytes.")
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _inside(folder: Path, location: str, where: str) -> Path:
    """Return the file of external data; raise LoadError unless it is a file truly inside the folder."""
    relative = Path(location)
    refused = f"{where} keeps its data in '{location}', which is not inside the model's folder."
    if not location or "\0" in location or relative.is_absolute() or ".." in relative.parts:
        raise LoadError(refused, hint="Put the data file beside the model.")
    try:
        path = (folder / relative).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise LoadError(
            f"{where} keeps its data in '{location}', which is missing.", hint="Copy it beside the model."
        ) from error
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise LoadError(refused, hint="Put the data file beside the model.")
    return path


def write_tensor(name: str, stored: Stored) -> TensorProto:
    """Return a constant as an ONNX tensor with raw data."""
    array = stored.array
    if stored.dtype is DType.BF16:
        raw = (np.ascontiguousarray(array).view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
    else:
        raw = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return TensorProto(name=name, data_type=ONNX_CODES[stored.dtype], dims=array.shape, raw_data=raw)
