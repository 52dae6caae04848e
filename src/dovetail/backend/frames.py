"""Messages between a process and its worker: a JSON header and raw bytes, over a pipe."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir.dtypes import AnyArray, stored_type

_LENGTHS = struct.Struct("<QQ")
_MAX_HEADER = 256 << 20
_MAX_PAYLOAD = 8 << 30


class BrokenFrameError(Exception):
    """What came through the pipe is not a message."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    header: Mapping[str, object]
    payload: bytes = b""

    def text(self, key: str) -> str:
        """Return a text of the header; nothing when it has none."""
        return str(self.header.get(key, ""))


def write_frame(sink: int, frame: Frame) -> None:
    """Write a message to a file descriptor."""
    head = json.dumps(frame.header).encode()
    for piece in (_LENGTHS.pack(len(head), len(frame.payload)), head, frame.payload):
        view = memoryview(piece)
        while view:
            view = view[os.write(sink, view[: 1 << 20]) :]


def read_frame(source: int) -> Frame | None:
    """Return the next message, or None when the other side has closed; raise BrokenFrameError."""
    start = _read(source, _LENGTHS.size)
    if start is None:
        return None
    head, size = _LENGTHS.unpack(start)
    if head > _MAX_HEADER or size > _MAX_PAYLOAD:
        raise BrokenFrameError("a message is too large")
    header, payload = _read(source, head), _read(source, size)
    if header is None or payload is None:
        raise BrokenFrameError("a message is cut short")
    try:
        fields = json.loads(header)
    except (RecursionError, ValueError) as error:
        raise BrokenFrameError("a message is not JSON") from error
    if not isinstance(fields, dict):
        raise BrokenFrameError("a message is not a table")
    return Frame(fields, payload)


def _read(source: int, size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        piece = os.read(source, min(size, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def arrays_to_bytes(arrays: Mapping[str, AnyArray]) -> tuple[list[list[object]], bytes]:
    """Return the names, types and shapes of arrays, and their bytes one after the other."""
    facts: list[list[object]] = [[name, value.dtype.str, list(value.shape)] for name, value in arrays.items()]
    return facts, b"".join(np.ascontiguousarray(value).tobytes() for value in arrays.values())


def arrays_from_bytes(facts: object, payload: bytes) -> dict[str, AnyArray]:
    """Return the arrays; raise BrokenFrameError when facts and bytes do not fit."""
    arrays: dict[str, AnyArray] = {}
    start = 0
    try:
        assert isinstance(facts, Sequence)
        for name, text, shape in facts:
            dtype = stored_type(str(text))
            if dtype.hasobject:
                raise BrokenFrameError("an array holds objects")
            sizes = tuple(int(size) for size in shape)
            if min(sizes, default=0) < 0:
                raise BrokenFrameError("an array has a negative size")
            count = int(np.prod(sizes, dtype=np.int64))
            arrays[str(name)] = np.frombuffer(payload, dtype, count, start).reshape(sizes).copy()
            start += count * dtype.itemsize
    except (AssertionError, OverflowError, TypeError, ValueError) as error:
        raise BrokenFrameError(f"arrays do not fit their description: {error}") from error
    return arrays
