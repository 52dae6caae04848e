"""Programs: what the shim is asked to build, as plain data that can be written to a blob.

Shapes and axes are already in the vendor's order (fastest dimension first). Codes are those of `dovetail_vsi.h`.
Layout of the bytes: the line `dovetail vsi 1 <bytes of JSON>`, the JSON, then the constants. The bytes are untrusted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

from dovetail.errors import DeviceError

_HEADER = re.compile(rb"dovetail vsi 1 (\d{1,9})\n")
_HINT = "Compile the model again."


class Code(IntEnum):
    """Element types of the shim."""

    F32 = 1
    F16 = 2
    BF16 = 3
    I8 = 4
    U8 = 5
    I16 = 6
    U16 = 7
    I32 = 8
    U32 = 9
    I64 = 10
    BOOL = 11

    @property
    def size_bytes(self) -> int:
        """Return the bytes of one element."""
        return _SIZES[self]


_SIZES = {
    Code.F32: 4,
    Code.F16: 2,
    Code.BF16: 2,
    Code.I8: 1,
    Code.U8: 1,
    Code.I16: 2,
    Code.U16: 2,
    Code.I32: 4,
    Code.U32: 4,
    Code.I64: 8,
    Code.BOOL: 1,
}


class Quant(IntEnum):
    """Kinds of quantisation of the shim."""

    NONE = 0
    AFFINE = 1
    FIXED_POINT = 2
    CHANNEL_SYMMETRIC = 3
    CHANNEL_AFFINE = 4


class TensorRole(IntEnum):
    """What a tensor is to the graph."""

    INNER = 0
    EDGE = 1
    CONSTANT = 2


@dataclass(frozen=True, slots=True)
class Form:
    """How a tensor is stored: element type and quantisation."""

    code: Code
    quant: Quant = Quant.NONE
    scale: float = 0.0
    zero_point: int = 0
    fl: int = 0
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0


@dataclass(frozen=True, slots=True)
class ProgramTensor:
    """One tensor: form, shape fastest first, and the bytes of a constant."""

    form: Form
    shape: tuple[int, ...]
    role: TensorRole
    data: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all elements."""
        return self.form.code.size_bytes * math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class ProgramOperator:
    """One operator of the shim; `node` names the node of the graph that it stands for."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    node: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A whole graph for one part, with its inputs and outputs by name; `batched` runs one sample at a time."""

    target: str
    sdk_name: str
    pid: int
    tensors: tuple[ProgramTensor, ...]
    operators: tuple[ProgramOperator, ...]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    batched: bool = False
    inner: tuple[tuple[str, int], ...] = ()
    """Tensors of the graph that are neither inputs nor outputs, by name: what can be tapped."""
    binary: bytes | None = field(default=None, repr=False)
    """The network in binary form; the program then has no operators, and its tensors are the edges only."""


def tapped(program: Program, names: tuple[str, ...]) -> Program:
    """Return a program that gives some inner tensors too; raise KeyError for one that it does not know."""
    known = dict(program.inner)
    extra = tuple((name, known[name]) for name in names)
    made = list(program.tensors)
    for _, tensor in extra:
        made[tensor] = replace(made[tensor], role=TensorRole.EDGE)
    return replace(program, tensors=tuple(made), outputs=(*program.outputs, *extra), inner=())


def labelled(program: Program, labels: Mapping[str, str]) -> Program:
    """Return the program with other names for some inputs and outputs."""
    sides = [
        tuple((labels.get(name, name), tensor) for name, tensor in side) for side in (program.inputs, program.outputs)
    ]
    return replace(program, inputs=sides[0], outputs=sides[1])


def with_binary(program: Program, binary: bytes) -> Program:
    """Return the same inputs and outputs around the network in binary form."""
    edges = (*program.inputs, *program.outputs)
    tensors = tuple(program.tensors[tensor] for _, tensor in edges)
    count = len(program.inputs)
    return replace(
        program,
        tensors=tensors,
        operators=(),
        inputs=tuple((name, index) for index, (name, _) in enumerate(program.inputs)),
        outputs=tuple((name, count + index) for index, (name, _) in enumerate(program.outputs)),
        inner=(),
        binary=binary,
    )


def program_message(program: Program) -> tuple[dict[str, Any], bytes]:
    """Return the message that builds a program, and the constants that go with it."""
    parts: list[bytes] = []
    tensors: list[dict[str, Any]] = []
    at = 0
    for tensor in program.tensors:
        entry = _tensor_fields(tensor)
        if tensor.data is not None:
            entry["data"] = [at, len(tensor.data)]
            at += _padded(parts, tensor.data)
        tensors.append(entry)
    message: dict[str, Any] = {
        "do": "build",
        "tensors": tensors,
        "operators": [
            {
                "kind": item.kind,
                "inputs": item.inputs,
                "outputs": item.outputs,
                "ints": item.ints,
                "floats": item.floats,
            }
            for item in program.operators
        ],
        "inputs": [tensor for _, tensor in program.inputs],
        "outputs": [tensor for _, tensor in program.outputs],
    }
    if program.binary is not None:
        facts = {"inputs": message["inputs"], "outputs": message["outputs"]}
        message["binary"] = {**facts, "data": [at, len(program.binary)]}
        _padded(parts, program.binary)
    return message, b"".join(parts)


def _padded(parts: list[bytes], data: bytes) -> int:
    """Append bytes so that the next ones are aligned; return how many were appended."""
    padding = -len(data) % 64
    parts.extend((data, bytes(padding)))
    return len(data) + padding


def _tensor_fields(tensor: ProgramTensor) -> dict[str, Any]:
    form = tensor.form
    entry: dict[str, Any] = {
        "dtype": int(form.code),
        "role": int(tensor.role),
        "shape": list(tensor.shape),
        "quant": int(form.quant),
    }
    for item in fields(Form):
        value = getattr(form, item.name)
        if item.name not in ("code", "quant") and value:
            entry[item.name] = value
    return entry


def program_to_bytes(program: Program) -> bytes:
    """Return a program as bytes; equal programs give equal bytes."""
    message, raw = program_message(program)
    nodes = [item.node for item in program.operators]
    facts = {
        "target": program.target,
        "sdk_name": program.sdk_name,
        "pid": program.pid,
        "batched": program.batched,
        "inner": program.inner,
        "names": [[name for name, _ in program.inputs], [name for name, _ in program.outputs]],
        "nodes": nodes,
        **{key: value for key, value in message.items() if key != "do"},
    }
    text = json.dumps(facts, sort_keys=True).encode()
    return b"dovetail vsi 1 %d\n" % len(text) + text + raw


def program_from_bytes(data: bytes) -> Program:
    """Return the program in these bytes; raise DeviceError when they are damaged."""
    header = _HEADER.match(data)
    if header is None:
        raise DeviceError("vsi: the blob was not made by this backend.", hint=_HINT)
    stop = header.end() + int(header.group(1))
    raw = memoryview(data)[stop:]
    try:
        return _program(json.loads(data[header.end() : stop]), raw)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise DeviceError(f"vsi: the blob is damaged: {error}.", hint=_HINT) from error


def _program(facts: dict[str, Any], raw: memoryview) -> Program:
    tensors = tuple(_tensor(entry, raw) for entry in facts["tensors"])
    operators = tuple(
        ProgramOperator(
            str(entry["kind"]),
            _ids(entry["inputs"], len(tensors), -1),
            _ids(entry["outputs"], len(tensors)),
            tuple(int(value) for value in entry["ints"]),
            tuple(float(value) for value in entry["floats"]),
            str(node),
        )
        for entry, node in zip(facts["operators"], facts["nodes"], strict=True)
    )
    edges = [
        tuple(zip(map(str, names), _ids(facts[side], len(tensors)), strict=True))
        for names, side in zip(facts["names"], ("inputs", "outputs"), strict=True)
    ]
    binary = _piece(facts["binary"]["data"], raw) if "binary" in facts else None
    return Program(
        target=str(facts["target"]),
        sdk_name=str(facts["sdk_name"]),
        pid=int(facts["pid"]),
        tensors=tensors,
        operators=operators,
        inputs=edges[0],
        outputs=edges[1],
        batched=bool(facts["batched"]),
        inner=tuple((str(name), _ids([tensor], len(tensors))[0]) for name, tensor in facts["inner"]),
        binary=binary,
    )


def _ids(values: list[Any], count: int, least: int = 0) -> tuple[int, ...]:
    found = tuple(int(value) for value in values)
    if any(not least <= value < count for value in found):
        raise ValueError("an operator names a tensor that is not there")
    return found


def _tensor(entry: dict[str, Any], raw: memoryview) -> ProgramTensor:
    known = {item.name for item in fields(Form)} - {"code", "quant"}
    extra: dict[str, Any] = {key: value for key, value in entry.items() if key in known}
    for key in ("scales", "zero_points"):
        if key in extra:
            extra[key] = tuple(extra[key])
    form = Form(Code(entry["dtype"]), Quant(entry["quant"]), **extra)
    shape = tuple(int(size) for size in entry["shape"])
    if not 1 <= len(shape) <= 8 or any(not 1 <= size < 2**31 for size in shape):
        raise ValueError(f"a tensor of shape {list(shape)}")
    data = _piece(entry["data"], raw) if "data" in entry else None
    tensor = ProgramTensor(form, shape, TensorRole(entry["role"]), data)
    if (data is None) is (tensor.role is TensorRole.CONSTANT) or (data is not None and len(data) != tensor.size_bytes):
        raise ValueError("a constant has the wrong size")
    return tensor


def _piece(where: list[Any], raw: memoryview) -> bytes:
    at, size = int(where[0]), int(where[1])
    if at < 0 or size < 0 or at + size > len(raw):
        raise ValueError("a constant lies outside the blob")
    return bytes(raw[at : at + size])
