"""Read arrays of an `.npz` file row by row."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dovetail.data.npy import NpyHeader, from_bytes, read_header, read_values
from dovetail.errors import DataError

_MAX_MEMBERS = 4096
_SKIPPED_BYTES = 1 << 20
_BAD_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    IndexError,
    ValueError,
)
"""What a damaged archive ends with; ValueError are names that are not in the code that they say they are."""


@contextmanager
def zip_errors(where: str) -> Iterator[None]:
    try:
        yield
    except _BAD_ZIP as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{where}: damaged .npz file ({reason}).", hint="Write the file again.") from error


def open_archive(path: Path) -> zipfile.ZipFile:
    with zip_errors(str(path)):
        return zipfile.ZipFile(path)


def read_headers(path: Path) -> dict[str, NpyHeader]:
    headers: dict[str, NpyHeader] = {}
    with open_archive(path) as archive, zip_errors(str(path)):
        infos = archive.infolist()
        if len(infos) > _MAX_MEMBERS:
            raise DataError(f"{path}: {len(infos)} arrays exceed the limit of {_MAX_MEMBERS}.")
        for info in infos:
            name = info.filename.removesuffix(".npy")
            if name in headers:
                raise DataError(f"{path}: {name!r} occurs twice.")
            with archive.open(info) as stream:
                headers[name] = read_header(stream, info.file_size, f"{path}: {name!r}")
    if not headers:
        raise DataError(f"{path}: the data set is empty.")
    return headers


def _skip(stream: IO[bytes], size_bytes: int) -> None:
    """Read on in a member of an archive without keeping anything.

    Python 3.13's zipfile moves within a member that is not compressed from wherever another one was read last, so that
    with two members open at once `seek` ends in the wrong place. For others it reads on as this does.
    """
    while size_bytes > 0:
        passed = len(stream.read(min(size_bytes, _SKIPPED_BYTES)))
        if not passed:
            return
        size_bytes -= passed


def read_rows(
    archive: zipfile.ZipFile,
    member: str,
    header: NpyHeader,
    indices: Sequence[int] | None,
    where: str,
    stack: ExitStack,
) -> Iterator[NDArray[Any]]:
    """Yield rows at ascending `indices`, one in memory at a time; Fortran order is read at once."""
    with zip_errors(where):
        names = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        stream = stack.enter_context(archive.open(names[member]))
        _skip(stream, header.offset)
    if header.fortran:
        with zip_errors(where):
            whole = read_values(stream, header, where)
        return iter(whole if indices is None else whole[list(indices)])
    return _stream_rows(stream, header, indices, where)


def _stream_rows(
    stream: IO[bytes], header: NpyHeader, indices: Sequence[int] | None, where: str
) -> Iterator[NDArray[Any]]:
    count, *row = header.shape
    values = int(np.prod(row, dtype=np.int64))
    row_bytes = values * header.dtype.itemsize
    at = 0
    for index in range(count) if indices is None else indices:
        _skip(stream, (index - at) * row_bytes)
        at = index + 1
        yield from_bytes(stream.read(row_bytes), header.dtype, values, where).reshape(row)
