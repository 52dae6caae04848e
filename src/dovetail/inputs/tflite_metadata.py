"""The metadata of a TFLite file: mean and standard deviation of its image input.

Source of the numbers of tables and fields: `metadata_schema.fbs` of TensorFlow Lite Support.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from dovetail.data.preprocess import Channels
from dovetail.inputs.statement import Statement

_METADATA = b"TFLITE_METADATA"
_NORMALIZATION, _IMAGE = 1, 2
_GREY = 2
_MODEL_BUFFERS, _MODEL_METADATA = 4, 6
_MOST_BYTES = 2 * 1024**3


def read_tflite_metadata(path: Path) -> Statement | None:
    """Return what the metadata of the first input says, or None where the file has none."""
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return None
    with path.open("rb") as stream:
        head = stream.read(8)
        if head[4:8] != b"TFL3":
            return None
        data = head + stream.read()
    try:
        return _statement(_metadata(data))
    except (IndexError, struct.error, ValueError, TypeError):
        # Metadata that cannot be read states nothing; the model itself is checked where it is loaded.
        return None


def _metadata(data: bytes) -> bytes | None:
    """Return the buffer of the metadata."""
    model = _Table.root(data)
    for entry in model.tables(_MODEL_METADATA):
        if entry.text(0) == _METADATA:
            buffers = model.tables(_MODEL_BUFFERS)
            return buffers[entry.number(1, "<I")].blob(0)
    return None


def _statement(data: bytes | None) -> Statement | None:
    if data is None:
        return None
    graphs = _Table.root(data).tables(3)
    inputs = graphs[0].tables(2) if graphs else []
    if not inputs:
        return None
    first = inputs[0]
    mean = scale = None
    for unit in first.tables(4):
        options = unit.table(1)
        if unit.number(0, "<B") == _NORMALIZATION and options is not None:
            mean, deviation = options.reals(0), options.reals(1)
            scale = tuple(1.0 / value for value in deviation) if deviation and all(deviation) else None
    return Statement("TFLite metadata", mean or None, scale, _channels(first))


def _channels(tensor: _Table) -> Channels | None:
    content = tensor.table(3)
    properties = None if content is None or content.number(0, "<B") != _IMAGE else content.table(1)
    if properties is None:
        return None
    space = properties.number(0, "<b")
    return Channels.GREY if space == _GREY else Channels.RGB if space == 1 else None


class _Table:
    """A table of a flatbuffer, read by the numbers of its fields."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._fields = place - self._at("<i", place)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def number(self, field: int, form: str) -> int:
        place = self._field(field)
        return 0 if place is None else int(self._at(form, place))

    def text(self, field: int) -> bytes:
        vector = self._vector(field)
        return b"" if vector is None else self._data[vector[0] : vector[0] + vector[1]]

    def blob(self, field: int) -> bytes:
        return self.text(field)

    def reals(self, field: int) -> tuple[float, ...]:
        vector = self._vector(field)
        if vector is None:
            return ()
        return tuple(float(value) for value in struct.unpack_from(f"<{vector[1]}f", self._data, vector[0]))

    def table(self, field: int) -> _Table | None:
        place = self._field(field)
        return None if place is None else _Table(self._data, place + self._at("<I", place))

    def tables(self, field: int) -> list[_Table]:
        vector = self._vector(field)
        if vector is None:
            return []
        places = [vector[0] + 4 * index for index in range(vector[1])]
        return [_Table(self._data, place + self._at("<I", place)) for place in places]

    def _vector(self, field: int) -> tuple[int, int] | None:
        """Return where the items of a vector begin, and how many there are."""
        place = self._field(field)
        if place is None:
            return None
        start = place + self._at("<I", place)
        count = self._at("<I", start)
        if count > len(self._data):
            raise ValueError("a vector is longer than the file")
        return start + 4, count

    def _field(self, field: int) -> int | None:
        """Return where a field is, or None where it is left out."""
        if 4 + 2 * field >= self._at("<H", self._fields):
            return None
        offset = self._at("<H", self._fields + 4 + 2 * field)
        return self._place + offset if offset else None

    def _at(self, form: str, place: int) -> Any:
        if place < 0:
            raise ValueError("an offset leads out of the file")
        return struct.unpack_from(form, self._data, place)[0]
