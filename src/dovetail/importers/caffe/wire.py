"""Protobuf's wire form, as .caffemodel files have it: only the layers' names and blobs are read.

Fields by number: NetParameter.layer 100 and the older .layers 2; LayerParameter name 1 and blobs 7; V1LayerParameter
name 4 and blobs 6; BlobProto num, channels, height, width 1 to 4, data 5, double_data 8, shape 7 (dim 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.errors import LoadError
from dovetail.ir import AnyArray

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_LAYERS = 100_000


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message: its number, and either a number or the bytes of its content."""

    number: int
    value: int
    content: memoryview
    kind: int


def read_blobs(data: bytes, where: str) -> Mapping[str, tuple[AnyArray, ...]]:
    """Return the blobs of every layer by its name; raise LoadError when the bytes are damaged."""
    arrays: dict[str, tuple[AnyArray, ...]] = {}
    for field in _fields(memoryview(data), where):
        if field.kind != _BYTES or field.number not in (2, 100):
            continue
        name_number, blob_number = (1, 7) if field.number == 100 else (4, 6)
        name = ""
        blobs: list[AnyArray] = []
        for inner in _fields(field.content, where):
            if inner.number == name_number and inner.kind == _BYTES:
                name = _name(inner.content, where)
            elif inner.number == blob_number and inner.kind == _BYTES:
                blobs.append(_blob(inner.content, f"blob {len(blobs)} of layer '{name}'", where))
        if blobs:
            arrays[name] = tuple(blobs)
        if len(arrays) > _MAX_LAYERS:
            raise LoadError(f"{where}: the .caffemodel has more than {_MAX_LAYERS} layers.")
    return arrays


def _name(content: memoryview, where: str) -> str:
    try:
        return bytes(content[:4096]).decode()
    except UnicodeDecodeError as error:
        raise LoadError(f"{where}: damaged .caffemodel: a layer's name is not text.") from error


def _blob(content: memoryview, label: str, where: str) -> AnyArray:
    old: dict[int, int] = {}
    shape: tuple[int, ...] | None = None
    pieces: list[AnyArray] = []
    for field in _fields(content, where):
        if field.number in (1, 2, 3, 4) and field.kind == _VARINT:
            old[field.number] = field.value
        elif field.number == 7 and field.kind == _BYTES:
            shape = _dims(field.content, where)
        elif field.number in (5, 8):
            pieces.append(_numbers(field, label, where))
    values = np.concatenate(pieces) if len(pieces) > 1 else pieces[0] if pieces else np.zeros(0, np.float32)
    if shape is None:
        shape = tuple(old.get(number, 1) for number in (1, 2, 3, 4))
    if len(shape) > 16 or math.prod(shape) != values.size:
        raise LoadError(
            f"{where}: {label} holds {values.size} numbers but its shape {list(shape)[:16]} needs {math.prod(shape)}.",
            source_node=label,
        )
    return np.asarray(values.astype(np.float32, copy=False).reshape(shape))


def _numbers(field: _Field, label: str, where: str) -> AnyArray:
    kind = np.dtype("<f4") if field.number == 5 else np.dtype("<f8")
    if field.kind == (_FIXED32 if field.number == 5 else _FIXED64):
        return np.frombuffer(field.content, kind)
    if field.kind != _BYTES or len(field.content) % kind.itemsize:
        raise LoadError(f"{where}: damaged .caffemodel: {label} does not hold whole numbers.", source_node=label)
    return np.frombuffer(field.content, kind)


def _dims(content: memoryview, where: str) -> tuple[int, ...]:
    dims: list[int] = []
    for field in _fields(content, where):
        if field.number == 1 and field.kind == _VARINT:
            dims.append(field.value)
        elif field.number == 1 and field.kind == _BYTES:
            at = 0
            while at < len(field.content) and len(dims) <= 16:
                value, at = _varint(field.content, at, where)
                dims.append(value)
    return tuple(dims[:17])


def _fields(content: memoryview, where: str) -> Iterator[_Field]:
    at = 0
    empty = content[:0]
    while at < len(content):
        key, at = _varint(content, at, where)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(content, at, where)
            yield _Field(number, value, empty, kind)
            continue
        if kind == _BYTES:
            size, at = _varint(content, at, where)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise LoadError(f"{where}: damaged .caffemodel: a field of wire type {kind}.")
        if at + size > len(content):
            raise LoadError(f"{where}: damaged .caffemodel: a field of {size} bytes does not fit into its message.")
        yield _Field(number, 0, content[at : at + size], kind)
        at += size


def _varint(content: memoryview, at: int, where: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise LoadError(f"{where}: damaged .caffemodel: a number is not closed.")
