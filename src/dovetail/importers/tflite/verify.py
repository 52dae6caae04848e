"""Verify a flatbuffer before anything reads it: every table, vector and string that the importer uses lies inside.

The `tflite` package's accessors trust offsets. What they reach from here on has been walked once with bounds checked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from dovetail.errors import LoadError

IDENTIFIER = b"TFL3"
_MAX_NAME = 4096


@dataclass(slots=True)
class _Walk:
    """Walk over untrusted bytes; `budget` bounds the elements visited, since tables may be shared without end."""

    data: bytes
    where: str
    budget: int = field(init=False)

    def __post_init__(self) -> None:
        self.budget = 2 * len(self.data) + 4096

    def fail(self, place: str, why: str) -> LoadError:
        return LoadError(
            f"{self.where}: damaged: {place} {why}.", source_node=place, hint="Copy or export the model again."
        )

    def number(self, kind: str, at: int, place: str) -> int:
        if at < 0 or at + struct.calcsize(kind) > len(self.data):
            raise self.fail(place, f"lies outside the file (byte {at} of {len(self.data)})")
        return int(struct.unpack_from(kind, self.data, at)[0])

    def table(self, at: int, place: str) -> _Table:
        """Return a table after checking its list of fields."""
        self.budget -= 1
        if self.budget < 0:
            raise self.fail(place, "is reached more often than the file can hold")
        fields_at = at - self.number("<i", at, place)
        fields_bytes = self.number("<H", fields_at, place)
        size = self.number("<H", fields_at + 2, place)
        if fields_bytes < 4 or fields_bytes % 2 or fields_at + fields_bytes > len(self.data):
            raise self.fail(place, f"has a list of fields of {fields_bytes} bytes")
        if size < 4 or at + size > len(self.data):
            raise self.fail(place, f"of {size} bytes does not fit into the file")
        offsets = struct.unpack_from(f"<{fields_bytes // 2 - 2}H", self.data, fields_at + 4)
        if any(offset and not 4 <= offset < size for offset in offsets):
            raise self.fail(place, "has a field outside itself")
        return _Table(self, at, offsets, place)


@dataclass(frozen=True, slots=True)
class _Table:
    """A checked table; fields are counted from 0 as in the schema."""

    walk: _Walk
    at: int
    offsets: tuple[int, ...]
    place: str

    def position(self, index: int) -> int | None:
        """Return where a field is, or None when it is left out."""
        offset = self.offsets[index] if index < len(self.offsets) else 0
        return self.at + offset if offset else None

    def target(self, index: int, what: str) -> int | None:
        """Return where an offset field leads."""
        at = self.position(index)
        if at is None:
            return None
        return at + self.walk.number("<I", at, f"{what} of {self.place}")

    def child(self, index: int, what: str) -> _Table | None:
        target = self.target(index, what)
        return None if target is None else self.walk.table(target, f"{what} of {self.place}")

    def vector(self, index: int, item_bytes: int, what: str) -> tuple[int, int]:
        """Return the position and count of a vector's elements, (0, 0) when it is left out."""
        target = self.target(index, what)
        if target is None:
            return 0, 0
        place = f"{what} of {self.place}"
        count = self.walk.number("<I", target, place)
        if target + 4 + count * item_bytes > len(self.walk.data):
            raise self.walk.fail(place, f"with {count} elements does not fit into the file")
        return target + 4, count

    def numbers(self, index: int, item_bytes: int, what: str) -> int:
        """Check a vector of numbers that is read in full, and return its count."""
        _, count = self.vector(index, item_bytes, what)
        self.walk.budget -= count // 4
        if self.walk.budget < 0:
            raise self.walk.fail(f"{what} of {self.place}", "is reached more often than the file can hold")
        return count

    def children(self, index: int, what: str) -> list[_Table]:
        start, count = self.vector(index, 4, what)
        label = f"{what} of {self.place}" if self.place != "model" else what
        tables: list[_Table] = []
        for number in range(count):
            at = start + 4 * number
            place = f"{label} {number}"
            tables.append(self.walk.table(at + self.walk.number("<I", at, place), place))
        return tables

    def name(self, index: int, what: str) -> None:
        """Check a string: text of one line."""
        start, count = self.vector(index, 1, what)
        place = f"{what} of {self.place}"
        self.walk.budget -= count // 4
        if count > _MAX_NAME:
            raise self.walk.fail(place, f"is {count} bytes long")
        try:
            text = self.walk.data[start : start + count].decode()
        except UnicodeDecodeError as error:
            raise self.walk.fail(place, "is not text") from error
        if text and not text.isprintable():
            raise self.walk.fail(place, "is not printable text of one line")


_OPTION_VECTORS: dict[str, tuple[tuple[int, int, str], ...]] = {
    "ReshapeOptions": ((0, 4, "new_shape"),),
    "SqueezeOptions": ((0, 4, "squeeze_dims"),),
    "VarHandleOptions": ((0, 1, "container"), (1, 1, "shared name")),
}
"""Vectors inside operators' options that the importer reads: field, bytes of an element, name."""


def verify_flatbuffer(data: bytes, where: str, option_names: dict[int, str]) -> None:
    """Raise LoadError naming the place where a TFLite flatbuffer leaves its own bounds."""
    walk = _Walk(data, where)
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise walk.fail("file", "has no TFL3 mark at byte 4")
    model = walk.table(walk.number("<I", 0, "model"), "model")
    codes = model.children(1, "operator code")
    for code in codes:
        code.name(1, "custom name")
    model.name(3, "description")
    buffers = model.children(4, "buffer")
    for buffer in buffers:
        buffer.vector(0, 1, "data")
    graphs = model.children(2, "subgraph")
    if not graphs:
        raise walk.fail("model", "has no subgraph")
    for graph in graphs:
        _verify_subgraph(graph, len(codes), len(buffers), option_names)


def _verify_subgraph(graph: _Table, codes: int, buffers: int, option_names: dict[int, str]) -> None:
    walk = graph.walk
    graph.name(4, "name")
    tensors = graph.children(0, "tensor")
    for tensor in tensors:
        _verify_tensor(tensor, buffers)
    _verify_indices(graph, 1, "inputs", len(tensors))
    _verify_indices(graph, 2, "outputs", len(tensors))
    for operator in graph.children(3, "operator"):
        at = operator.position(0)
        code = 0 if at is None else walk.number("<I", at, operator.place)
        if code >= codes:
            raise walk.fail(operator.place, f"uses operator code {code} of {codes}")
        _verify_indices(operator, 1, "inputs", len(tensors), optional=True)
        _verify_indices(operator, 2, "outputs", len(tensors))
        _verify_indices(operator, 8, "intermediates", len(tensors), optional=True)
        operator.vector(5, 1, "custom options")
        options = operator.child(4, "options")
        kind_at = operator.position(3)
        kind = 0 if kind_at is None else walk.number("<B", kind_at, operator.place)
        if options is not None:
            for index, width, what in _OPTION_VECTORS.get(option_names.get(kind, ""), ()):
                options.numbers(index, width, what)


def _verify_tensor(tensor: _Table, buffers: int) -> None:
    walk = tensor.walk
    tensor.numbers(0, 4, "shape")
    tensor.name(3, "name")
    at = tensor.position(2)
    buffer = 0 if at is None else walk.number("<I", at, tensor.place)
    if buffer >= buffers:
        raise walk.fail(tensor.place, f"uses buffer {buffer} of {buffers}")
    quantization = tensor.child(4, "quantization")
    if quantization is not None:
        quantization.numbers(2, 4, "scale")
        quantization.numbers(3, 8, "zero point")
    tensor.numbers(7, 4, "shape signature")
    tensor.child(6, "sparsity")


def _verify_indices(table: _Table, index: int, what: str, tensors: int, *, optional: bool = False) -> None:
    start, count = table.vector(index, 4, what)
    table.numbers(index, 4, what)
    for number in range(count):
        value = table.walk.number("<i", start + 4 * number, table.place)
        if not (-1 if optional else 0) <= value < tensors:
            raise table.walk.fail(table.place, f"has {what} that name tensor {value} of {tensors}")
