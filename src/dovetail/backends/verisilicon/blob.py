"""Programs as bytes: what the shim is sent, and blobs that can be kept.

Layout of a blob: the line `dovetail vsi 2 <bytes of JSON>`, the JSON, then the constants. The bytes are untrusted.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.program import (
    Code,
    Program,
    ProgramOperator,
    ProgramTensor,
    Quant,
    Route,
    StoredForm,
    TensorRole,
)
from dovetail.errors import DeviceError

_HEADER = re.compile(rb"dovetail vsi 2 (\d{1,9})\n")
_HINT = "Compile the model again."


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
    for item in fields(StoredForm):
        value = getattr(form, item.name)
        if item.name not in ("code", "quant") and value:
            entry[item.name] = value
    return entry


def program_to_bytes(program: Program) -> bytes:
    """Return a program as bytes; equal programs give equal bytes."""
    message, raw = program_message(program)
    facts = {
        "target": program.target,
        "sdk_name": program.sdk_name,
        "pid": program.pid,
        "batched": program.batched,
        "inner": program.inner,
        "names": [[name for name, _ in program.inputs], [name for name, _ in program.outputs]],
        "nodes": [item.node for item in program.operators],
        "generation": program.generation.value,
        "decided": [[item.route.value, item.joins] for item in program.operators],
        **{key: value for key, value in message.items() if key != "do"},
    }
    text = json.dumps(facts, sort_keys=True).encode()
    return b"dovetail vsi 2 %d\n" % len(text) + text + raw


def program_from_bytes(data: bytes) -> Program:
    """Return the program in these bytes; raise DeviceError when they are damaged."""
    header = _HEADER.match(data)
    if header is None:
        raise DeviceError("vsi: the blob was not made by this backend.", hint=_HINT)
    stop = header.end() + int(header.group(1))
    raw = memoryview(data)[stop:]
    try:
        return _program(json.loads(data[header.end() : stop]), raw)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
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
            Route(route),
            _ids(joins, index),
        )
        for index, (entry, node, (route, joins)) in enumerate(
            zip(facts["operators"], facts["nodes"], facts["decided"], strict=True)
        )
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
        generation=Generation(facts["generation"]),
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
        raise ValueError("an operator names a tensor or an operator that is not there")
    return found


def _tensor(entry: dict[str, Any], raw: memoryview) -> ProgramTensor:
    known = {item.name for item in fields(StoredForm)} - {"code", "quant"}
    extra: dict[str, Any] = {key: value for key, value in entry.items() if key in known}
    for key in ("scales", "zero_points"):
        if key in extra:
            extra[key] = tuple(extra[key])
    form = StoredForm(Code(entry["dtype"]), Quant(entry["quant"]), **extra)
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
