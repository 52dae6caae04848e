"""The child's side of containment: load a backend by its entry point, and compile, load and run for the parent.

Vendors' libraries write to stdout; messages therefore have pipes of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from dovetail.backend.frames import Frame, arrays_from_bytes, arrays_to_bytes, read_frame, write_frame
from dovetail.backend.protocols import Blob, CompileOptions, Executable, Fidelity, InferencePrecision, Signature
from dovetail.backend.registry import backend, find_device, find_target
from dovetail.errors import DovetailError
from dovetail.ir.parse import parse_type
from dovetail.ir.storage import graph_from_bytes
from dovetail.ir.types import TensorType


def serve(source: int, sink: int) -> None:
    """Answer messages until the parent closes the pipe."""
    loaded: dict[int, Executable] = {}
    answers: dict[str, Callable[[Frame], Frame]] = {
        "compile": _compile,
        "load": lambda frame: _load(frame, loaded),
        "run": lambda frame: _run(frame, loaded),
        "close": lambda frame: _close(frame, loaded),
    }
    write_frame(sink, Frame({"ok": True}))
    while (frame := read_frame(source)) is not None:
        try:
            answer = answers[frame.text("do")](frame)
        except DovetailError as error:
            answer = Frame({"ok": False, "message": error.message, "hint": error.hint or ""})
        except Exception as error:
            # A plug-in is anybody's code; the parent is told what it raised.
            answer = Frame({"ok": False, "message": f"{type(error).__name__}: {error}", "hint": ""})
        write_frame(sink, answer)


def _compile(frame: Frame) -> Frame:
    graph = graph_from_bytes(frame.payload, "the parent's graph")
    options = options_from(frame.header["options"])
    blob = backend(frame.text("backend")).compile(graph, find_target(frame.text("target")), options)
    return Frame({"ok": True, "format": blob.format}, blob.payload)


def _load(frame: Frame, loaded: dict[int, Executable]) -> Frame:
    device = find_device(frame.text("backend"), frame.text("target"))
    signature = Signature(_types(frame.header["inputs"]), _types(frame.header["outputs"]))
    number = len(loaded)
    loaded[number] = device.load(Blob(frame.text("format"), frame.payload), signature)
    return Frame({"ok": True, "number": number})


def _run(frame: Frame, loaded: dict[int, Executable]) -> Frame:
    taps = frame.header["taps"]
    assert isinstance(taps, list)
    inputs = arrays_from_bytes(frame.header["arrays"], frame.payload)
    made = loaded[int(frame.text("number"))].run(inputs, [str(tap) for tap in taps])
    facts, payload = arrays_to_bytes(made)
    return Frame({"ok": True, "arrays": facts}, payload)


def _close(frame: Frame, loaded: dict[int, Executable]) -> Frame:
    loaded[int(frame.text("number"))].close()
    return Frame({"ok": True})


def _types(value: object) -> dict[str, TensorType]:
    assert isinstance(value, dict)
    return {str(name): parse_type(str(text)) for name, text in value.items()}


def options_to(options: CompileOptions) -> dict[str, object]:
    """Return options as plain data."""
    return {
        "fidelity": options.fidelity.value,
        "threads": options.threads,
        "inference": options.inference.value,
        "profiling": options.profiling,
        "properties": [list(item) for item in options.properties],
        "channels_last": list(options.channels_last),
    }


def options_from(value: object) -> CompileOptions:
    """Return the options that `options_to` wrote."""
    assert isinstance(value, dict)
    return CompileOptions(
        Fidelity(value["fidelity"]),
        int(value["threads"]),
        InferencePrecision(value["inference"]),
        bool(value["profiling"]),
        tuple((str(key), str(text)) for key, text in value["properties"]),
        tuple(map(str, value["channels_last"])),
    )


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
