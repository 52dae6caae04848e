"""Read `.npy` data from a stream without trusting its header."""

from __future__ import annotations

import math
import tokenize
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from dovetail.errors import DataError

MAX_SAMPLE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What an `.npy` stream holds; `offset` is where its values start, in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes], total_bytes: int, where: str) -> NpyHeader:
    """Read the header and check it against the stream's real size.

    Raises DataError for a damaged header, Python objects, or a size that the header contradicts.
    """
    try:
        version = npy_format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy_format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = npy_format.read_array_header_2_0(stream)
        else:
            raise DataError(f"{where}: .npy version {version[0]}.{version[1]} is not supported.")
    except (EOFError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError, tokenize.TokenError) as error:
        raise DataError(f"{where}: damaged .npy header ({_one_line(error)}).", hint="Write the file again.") from error
    if dtype.hasobject or dtype.names is not None or dtype.itemsize == 0:
        raise DataError(f"{where}: dtype {dtype} is not an array of plain values.", hint="Save numbers or text.")
    if any(size < 0 for size in shape):
        raise DataError(f"{where}: damaged .npy header (negative size in {shape}).")
    header = NpyHeader(tuple(shape), dtype, bool(fortran), stream.tell())
    if header.offset + header.size_bytes != total_bytes:
        raise DataError(
            f"{where}: the header promises {header.size_bytes} bytes of values, "
            f"the file holds {total_bytes - header.offset}.",
            hint="The file is truncated or damaged.",
        )
    return header


def read_values(stream: IO[bytes], header: NpyHeader, where: str) -> NDArray[Any]:
    """Read all values; the stream stands at the first one.

    Raises DataError above `MAX_SAMPLE_BYTES` and when the stream ends early.
    """
    if header.size_bytes > MAX_SAMPLE_BYTES:
        raise DataError(f"{where}: {header.size_bytes} bytes exceed the limit of {MAX_SAMPLE_BYTES} at once.")
    flat = from_bytes(stream.read(header.size_bytes), header.dtype, math.prod(header.shape), where)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def from_bytes(data: bytes, dtype: np.dtype[Any], count: int, where: str) -> NDArray[Any]:
    """View `data` as `count` values, read-only.

    Raises DataError when there are fewer.
    """
    if len(data) != count * dtype.itemsize:
        raise DataError(f"{where}: the file ends early.", hint="The file is truncated or damaged.")
    return np.frombuffer(data, dtype=dtype, count=count)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
