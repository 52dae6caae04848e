"""Read the text form of a Graph; the text is untrusted."""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dovetail.errors import GraphError
from dovetail.ir.dtypes import AnyArray, DType, stored_type
from dovetail.ir.graph import OPSET, Graph
from dovetail.ir.node import Node
from dovetail.ir.types import Dim, Quantization, TensorType
from dovetail.ir.verify import verify_type

ConstantReader = Callable[[str, np.dtype[np.generic], tuple[int, ...]], AnyArray]

_DECODER = json.JSONDecoder()
_MAX_NESTING = 8
_MALFORMED = (ValueError, KeyError, TypeError, IndexError, AssertionError, OverflowError, RecursionError)


def parse_graph(text: str) -> Graph:
    """Return the Graph that the text describes; raise GraphError naming the line when it is malformed."""
    return parse_lines(text.splitlines(), read_inline)


def parse_lines(lines: list[str], constant: ConstantReader, nesting: int = 0) -> Graph:
    """Return the Graph of these lines; `constant` reads the text after a constant's equals sign."""
    if nesting > _MAX_NESTING:
        raise GraphError(f"text form: bodies are nested more than {_MAX_NESTING} deep")
    draft = _Draft(constant, nesting)
    for number, line in enumerate(lines, 1):
        try:
            draft.read(line)
        except _MALFORMED as error:
            raise GraphError(f"text form, line {number}: {error}: {line[:80]!r}") from error
    if not draft.ended:
        raise GraphError("text form: no line 'end'; the text is cut short")
    return draft.graph()


def parse_type(text: str) -> TensorType:
    """Return the type that a text such as `i8[1, 3] q(scale=[0.5], zero=[3])` describes; raise GraphError."""
    cursor = _Cursor(text)
    try:
        kind = _read_type(cursor)
    except _MALFORMED as error:
        raise GraphError(f"type {text[:80]!r}: {error}") from error
    if cursor.rest():
        raise GraphError(f"type {text[:80]!r}: {cursor.rest()[:20]!r} is left over")
    verify_type(f"type {text[:80]!r}", kind)
    return kind


class _Cursor:
    """Walk over one line."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.at = 0

    def json(self) -> object:
        self._skip()
        value, self.at = _DECODER.raw_decode(self.line, self.at)
        return value

    def name(self) -> str:
        value = self.json()
        if not isinstance(value, str):
            raise ValueError("a quoted name is expected")
        return value

    def accept(self, token: str) -> bool:
        self._skip()
        if self.line.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise ValueError(f"{token!r} is expected at column {self.at + 1}")

    def match(self, pattern: re.Pattern[str]) -> str:
        self._skip()
        match = pattern.match(self.line, self.at)
        if match is None:
            raise ValueError(f"{pattern.pattern} is expected at column {self.at + 1}")
        self.at = match.end()
        return match.group()

    def rest(self) -> str:
        self._skip()
        return self.line[self.at :]

    def _skip(self) -> None:
        while self.line[self.at : self.at + 1] == " ":
            self.at += 1


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OP = re.compile(r"[A-Za-z_][A-Za-z0-9_.:]*")


@dataclass(slots=True)
class _Draft:
    """Collect what the lines say."""

    constant: ConstantReader
    nesting: int
    name: str | None = None
    ended: bool = False
    nodes: list[Node] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    captures: list[str] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, AnyArray] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def graph(self) -> Graph:
        if self.name is None:
            raise GraphError("text form: no line 'graph'")
        return Graph(
            name=self.name,
            nodes=tuple(self.nodes),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            types=self.types,
            constants=self.constants,
            captures=tuple(self.captures),
            origins=self.origins,
        )

    def read(self, line: str) -> None:
        cursor = _Cursor(line)
        text = cursor.rest()
        if not text or text.startswith("#"):
            return
        if text.startswith('"'):
            self._node(cursor)
            return
        word = cursor.match(_WORD)
        if word == "graph":
            self.name = cursor.name()
            cursor.expect("opset")
            if cursor.json() != OPSET:
                raise ValueError(f"only opset {OPSET} is known here")
        elif word in ("input", "capture"):
            (self.inputs if word == "input" else self.captures).append(self._typed(cursor))
        elif word == "constant":
            self._constant(cursor)
        elif word == "output":
            self.outputs.append(cursor.name())
        elif word == "origin":
            tensor = cursor.name()
            cursor.expect(":")
            self.origins[tensor] = cursor.name()
        elif word == "end":
            self.ended = True
        else:
            raise ValueError(f"unknown word {word!r}")

    def _constant(self, cursor: _Cursor) -> None:
        tensor = self._typed(cursor)
        kind = self.types[tensor]
        if kind.static_shape is None:
            raise ValueError("a constant needs a static shape")
        cursor.expect("=")
        self.constants[tensor] = self.constant(cursor.rest(), kind.dtype.carrier, kind.static_shape)

    def _typed(self, cursor: _Cursor) -> str:
        tensor = cursor.name()
        cursor.expect(":")
        self.types[tensor] = _read_type(cursor)
        return tensor

    def _node(self, cursor: _Cursor) -> None:
        name = cursor.name()
        cursor.expect("=")
        domain, _, op = cursor.match(_OP).rpartition("::")
        cursor.expect("(")
        inputs: list[str] = []
        while not cursor.accept(")"):
            inputs.append(cursor.name())
            cursor.accept(",")
        cursor.expect("->")
        cursor.expect("(")
        outputs: list[str] = []
        while not cursor.accept(")"):
            if cursor.accept('""'):
                outputs.append("")
            else:
                outputs.append(self._typed(cursor))
            cursor.accept(",")
        attributes: dict[str, object] = {}
        if cursor.rest().startswith("{"):
            raw = cursor.json()
            assert isinstance(raw, dict)
            attributes = {key: self._attribute(value) for key, value in raw.items()}
        origin: tuple[str, ...] = ()
        if cursor.accept("origin"):
            names = cursor.json()
            assert isinstance(names, list)
            origin = tuple(str(item) for item in names)
        self.nodes.append(Node(name, op, tuple(inputs), tuple(outputs), attributes, domain, origin))

    def _attribute(self, value: object) -> object:
        if isinstance(value, list):
            return tuple(value)
        if isinstance(value, dict) and "$graph" in value:
            return parse_lines([str(line) for line in value["$graph"]], self.constant, self.nesting + 1)
        if isinstance(value, dict) and "$array" in value:
            head, _, body = str(value["$array"]).partition(" = ")
            dtype_text, _, shape_text = head.partition("[")
            shape = tuple(int(size) for size in json.loads("[" + shape_text))
            dtype = stored_type(dtype_text)
            if dtype.kind not in "iufb":
                raise ValueError(f"an attribute cannot hold elements of type {dtype}")
            return self.constant(body, dtype, shape)
        if isinstance(value, dict) or value is None:
            raise ValueError("an attribute has an unknown form")
        return value


def _read_type(cursor: _Cursor) -> TensorType:
    dtype = DType(cursor.match(_WORD))
    cursor.expect("[")
    shape: tuple[Dim, ...] | None
    if cursor.accept("*"):
        cursor.expect("]")
        shape = None
    else:
        dims: list[Dim] = []
        while not cursor.accept("]"):
            dims.append(None if cursor.accept("?") else _dim(cursor.json()))
            cursor.accept(",")
        shape = tuple(dims)
    return TensorType(dtype, shape, _read_quantization(cursor) if cursor.accept("q(") else None)


def _dim(value: object) -> Dim:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a dimension")
    return value


def _read_quantization(cursor: _Cursor) -> Quantization:
    axis: int | None = None
    if cursor.accept("axis="):
        value = cursor.json()
        assert isinstance(value, int)
        axis = value
        cursor.expect(",")
    cursor.expect("scale=")
    scale = cursor.json()
    cursor.expect(",")
    cursor.expect("zero=")
    zero = cursor.json()
    cursor.expect(")")
    if not isinstance(scale, list) or not isinstance(zero, list):
        raise ValueError("scale and zero are lists")
    return Quantization(tuple(float(item) for item in scale), tuple(int(item) for item in zero), axis)


def read_inline(text: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> AnyArray:
    """Return the array that the text after an equals sign gives; raise ValueError when the size differs."""
    array: AnyArray
    if text.startswith("base64 "):
        import base64  # A board reads no text.

        try:
            payload = base64.b64decode(str(json.loads(text[7:])), validate=True)
        except binascii.Error as error:
            raise ValueError(f"bad base64: {error}") from error
        array = np.frombuffer(payload, dtype=dtype.newbyteorder("<")).astype(dtype)
    else:
        values = json.loads(text)
        try:
            # Integers must not pass through float64, which loses those above 2**53.
            array = np.array(values, dtype=np.float64 if dtype.kind == "f" else dtype).astype(dtype)
        except OverflowError as error:
            raise ValueError(f"a value does not fit {dtype}") from error
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise ValueError(f"{array.size} values for a shape of {list(shape)}")
    return array.reshape(shape)
