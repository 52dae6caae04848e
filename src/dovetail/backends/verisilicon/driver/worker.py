"""The child process that holds one vendor graph: standard library only, started by path with `python -I -S`.

It loads the shim with ctypes, obeys messages on one pipe and answers on another. A message is a header of two lengths,
a JSON object and raw bytes; nothing is ever unpickled. Tensors of a run lie in shared memory that the parent made.
Vendor libraries print to stdout and stderr as they like: those are files of the parent.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import select
import shutil
import signal
import struct
import sys
import threading
import time
from typing import Any

HEADER = struct.Struct("<IQ")
MAX_JSON_BYTES = 64 << 20
MAX_RAW_BYTES = 4 << 30
_PARENT_POLL_MS = 1000
_TRIES = 100

Message = dict[str, Any]
"""A JSON object; both sides check what they read from it."""


class ProtocolError(Exception):
    """The other side sent what is not a message."""


def write_message(stream: int, message: Message, raw: bytes | memoryview = b"") -> None:
    """Write one message to a file descriptor."""
    text = json.dumps(message).encode()
    for part in (HEADER.pack(len(text), len(raw)), text, raw):
        view = memoryview(part)
        while view:
            view = view[os.write(stream, view) :]


def read_message(stream: int) -> tuple[Message, bytes] | None:
    """Return the next message, or None at the end of the stream."""
    header = _read_exactly(stream, HEADER.size, at_start=True)
    if header is None:
        return None
    text_bytes, raw_bytes = HEADER.unpack(header)
    if text_bytes > MAX_JSON_BYTES or raw_bytes > MAX_RAW_BYTES:
        raise ProtocolError(f"a message of {text_bytes} + {raw_bytes} bytes")
    text = _read_exactly(stream, text_bytes) or b""
    raw = _read_exactly(stream, raw_bytes) or b""
    message = json.loads(text)
    if not isinstance(message, dict):
        raise ProtocolError("a message is not an object")
    return message, raw


def _read_exactly(stream: int, count: int, *, at_start: bool = False) -> bytes | None:
    parts: list[bytes] = []
    missing = count
    while missing:
        part = os.read(stream, min(missing, 1 << 20))
        if not part:
            if at_start and missing == count:
                return None
            raise ProtocolError("the stream ended inside a message")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


class _Tensor(ctypes.Structure):
    """`dtv_tensor` of dovetail_vsi.h."""

    _fields_ = (
        ("dtype", ctypes.c_int32),
        ("role", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("quant", ctypes.c_int32),
        ("zero_point", ctypes.c_int32),
        ("fl", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("channels", ctypes.c_int32),
        ("axis", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_uint32)),
        ("scales", ctypes.POINTER(ctypes.c_float)),
        ("zero_points", ctypes.POINTER(ctypes.c_int32)),
        ("data", ctypes.c_void_p),
        ("data_bytes", ctypes.c_uint64),
    )


class _Operator(ctypes.Structure):
    """`dtv_operator` of dovetail_vsi.h."""

    _fields_ = (
        ("kind", ctypes.c_char_p),
        ("uid", ctypes.c_uint32),
        ("input_count", ctypes.c_int32),
        ("output_count", ctypes.c_int32),
        ("int_count", ctypes.c_int32),
        ("float_count", ctypes.c_int32),
        ("inputs", ctypes.POINTER(ctypes.c_int32)),
        ("outputs", ctypes.POINTER(ctypes.c_int32)),
        ("ints", ctypes.POINTER(ctypes.c_int32)),
        ("floats", ctypes.POINTER(ctypes.c_float)),
    )


def _ints(values: list[int]) -> Any:
    return (ctypes.c_int32 * max(len(values), 1))(*values)


def _floats(values: list[float]) -> Any:
    return (ctypes.c_float * max(len(values), 1))(*values)


class RefusedError(Exception):
    """The vendor library refused; the message is the shim's."""


class Shim:
    """Call the shim; every refusal is a RefusedError."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        library.dtv_create.restype = ctypes.c_void_p
        library.dtv_version.restype = ctypes.c_char_p
        library.dtv_last_error.restype = ctypes.c_char_p
        self._library = library
        self._graph: ctypes.c_void_p | None = None

    def facts(self) -> Message:
        """Return the versions of the shim's interface and of the vendor library."""
        return {"abi": self._library.dtv_abi(), "version": self._library.dtv_version().decode()}

    def build(self, message: Message, raw: bytes) -> None:
        """Make the graph of a message; `raw` holds its constants."""
        made = self._library.dtv_create()
        if not made:
            raise self._refusal()
        self._graph = ctypes.c_void_p(made)
        # One copy that the vendor library may read from until the call returns; slices of bytes have no address.
        held = ctypes.create_string_buffer(raw, len(raw)) if raw else None
        base = ctypes.addressof(held) if held is not None else 0
        for tensor in message["tensors"]:
            self._check(self._library.dtv_add_tensor(self._graph, ctypes.byref(_tensor(tensor, base))))
        for uid, fields in enumerate(message["operators"]):
            self._check(self._library.dtv_add_operator(self._graph, ctypes.byref(_operator(fields, uid))))
        if "binary" in message:
            fields = message["binary"]
            at, size = fields["data"]
            operator = _operator({**fields, "kind": "binary", "ints": [], "floats": []}, 0)
            found = self._library.dtv_add_binary(
                self._graph, ctypes.c_void_p(base + at), ctypes.c_uint64(size), ctypes.byref(operator)
            )
            self._check(found)
        inputs, outputs = message["inputs"], message["outputs"]
        self._check(self._library.dtv_set_edges(self._graph, _ints(inputs), len(inputs), _ints(outputs), len(outputs)))
        self._check(self._library.dtv_setup(self._graph))

    def compile(self) -> None:
        """Compile the graph for running."""
        self._check(self._library.dtv_compile(self._graph))

    def binary(self) -> bytes:
        """Return the graph in binary form; the graph cannot be used afterwards."""
        size = ctypes.c_uint64(0)
        self._check(self._library.dtv_write_binary(self._graph, None, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(self._library.dtv_write_binary(self._graph, buffer, ctypes.byref(size)))
        return buffer.raw[: size.value]

    def run(self, arena: int, inputs: list[list[int]], outputs: list[list[int]]) -> None:
        """Run once; the lists hold tensor, offset in shared memory and size in bytes."""
        for tensor, at, size in inputs:
            self._check(
                self._library.dtv_write(self._graph, tensor, ctypes.c_void_p(arena + at), ctypes.c_uint64(size))
            )
        self._check(self._library.dtv_run(self._graph))
        for tensor, at, size in outputs:
            self._check(self._library.dtv_read(self._graph, tensor, ctypes.c_void_p(arena + at), ctypes.c_uint64(size)))

    def _check(self, status: int) -> None:
        if status < 0:
            raise self._refusal()

    def _refusal(self) -> RefusedError:
        return RefusedError(self._library.dtv_last_error().decode(errors="replace"))


def _tensor(fields: Message, base: int) -> _Tensor:
    shape = fields["shape"]
    at, size = fields.get("data", (0, 0))
    scales, zeros = fields.get("scales", []), fields.get("zero_points", [])
    return _Tensor(
        dtype=fields["dtype"],
        role=fields["role"],
        rank=len(shape),
        quant=fields["quant"],
        zero_point=fields.get("zero_point", 0),
        fl=fields.get("fl", 0),
        scale=fields.get("scale", 0.0),
        channels=len(scales),
        axis=fields.get("axis", 0),
        shape=(ctypes.c_uint32 * len(shape))(*shape),
        scales=_floats(scales),
        zero_points=_ints(zeros),
        data=base + at if "data" in fields else None,
        data_bytes=size,
    )


def _operator(fields: Message, uid: int) -> _Operator:
    return _Operator(
        kind=fields["kind"].encode(),
        uid=uid,
        input_count=len(fields["inputs"]),
        output_count=len(fields["outputs"]),
        int_count=len(fields["ints"]),
        float_count=len(fields["floats"]),
        inputs=_ints(fields["inputs"]),
        outputs=_ints(fields["outputs"]),
        ints=_ints(fields["ints"]),
        floats=_floats(fields["floats"]),
    )


class _Server:
    """Obey messages until the parent hangs up."""

    def __init__(self, shim: Shim, arena: mmap.mmap | None) -> None:
        self._shim = shim
        self._arena = arena
        self._base = 0 if arena is None else ctypes.addressof(ctypes.c_char.from_buffer(arena))

    def answer(self, message: Message, raw: bytes) -> tuple[Message, bytes]:
        """Do what a message asks."""
        start = time.perf_counter_ns()
        made = b""
        match message["do"]:
            case "build":
                self._shim.build(message, raw)
            case "compile":
                self._shim.compile()
            case "binary":
                made = self._shim.binary()
            case "run":
                self._shim.run(self._base, message["inputs"], message["outputs"])
            case unknown:
                raise ProtocolError(f"'{unknown}' is not something that a worker does")
        return {"ok": True, "elapsed_ns": time.perf_counter_ns() - start}, made


def _restrict(address_bytes: int, cpu_seconds: int) -> None:
    """Bound what the vendor library may take."""
    for kind, limit in (
        (resource.RLIMIT_AS, address_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 64 << 20),
    ):
        _, hard = resource.getrlimit(kind)
        wanted = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (wanted, wanted))


def _leave_with_parent(source: int, parent: int, folder: str) -> None:
    """Wait until nobody can write to us any more, then take the working directory and this group of processes away.

    A parent that is killed cleans nothing up. The vendor library runs without Python's lock, so that this thread does.
    """
    poller = select.poll()
    poller.register(source, 0)
    while os.getppid() == parent and not poller.poll(_PARENT_POLL_MS):
        pass
    _vanish(folder)


def _vanish(folder: str) -> None:
    """Take the working directory and this group of processes away: whoever started them is gone."""
    for _ in range(_TRIES):  # the vendor library may be writing into it
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Serve: the argument is a JSON object with the pipes, the shim, the limits and the shared memory."""
    setup = json.loads(arguments[0])
    _restrict(setup["address_bytes"], setup["cpu_seconds"])
    folder = os.getcwd()
    watch = threading.Thread(target=_leave_with_parent, args=(setup["source"], setup["parent"], folder), daemon=True)
    watch.start()
    arena = mmap.mmap(setup["arena"], setup["arena_bytes"]) if setup["arena_bytes"] else None
    source, sink = setup["source"], setup["sink"]
    try:
        shim = Shim(setup["shim"])
    except OSError as error:
        write_message(sink, {"ok": False, "reason": f"the shim cannot be loaded: {error}"})
        return 1
    write_message(sink, {"ok": True, **shim.facts()})
    server = _Server(shim, arena)
    try:
        while (received := read_message(source)) is not None:
            try:
                answer, raw = server.answer(*received)
            except RefusedError as error:
                answer, raw = {"ok": False, "reason": str(error)}, b""
            sys.stdout.flush()
            write_message(sink, answer, raw)
    except BrokenPipeError:
        pass
    # Nobody listens. The vendor's destructors have been seen to hang: what is left is memory of this process only.
    _vanish(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
