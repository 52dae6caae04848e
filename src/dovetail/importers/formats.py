"""The file formats that can be imported, recognised by content first and suffix second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import BundleError, LoadError
from dovetail.importers.caffe import load_caffe
from dovetail.importers.converted import is_converted, load_converted
from dovetail.importers.darknet import load_darknet
from dovetail.importers.onnx import load_onnx
from dovetail.importers.options import LoadOptions
from dovetail.importers.tflite import load_tflite
from dovetail.ir import Graph, graph_from_bytes

_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A format of models: `matches` sees the path and the first 64 bytes of the file."""

    name: str
    suffixes: tuple[str, ...]
    matches: Callable[[Path, bytes], bool]
    load: Callable[[Path, LoadOptions], Graph]


def _is_dovetail(_path: Path, head: bytes) -> bool:
    return head.startswith(b"dovetail graph ")


def _load_dovetail(path: Path, _options: LoadOptions) -> Graph:
    try:
        return graph_from_bytes(path.read_bytes(), str(path))
    except BundleError as error:
        raise LoadError(error.message, hint="Copy it again, or make it anew from the model.") from error


def _is_onnx(path: Path, head: bytes) -> bool:
    # An ONNX file is a bare protobuf message without a magic number; its first field is nearly always ir_version.
    return path.suffix.lower() == ".onnx" or (not path.suffix and head[:1] == b"\x08")


def _is_tflite(path: Path, head: bytes) -> bool:
    return head[4:8] == b"TFL3" or path.suffix.lower() == ".tflite"


def _has_suffix(*suffixes: str) -> Callable[[Path, bytes], bool]:
    return lambda path, _head: path.suffix.lower() in suffixes


_FORMATS: tuple[ModelFormat, ...] = (
    ModelFormat("dovetail", (".dvg",), _is_dovetail, _load_dovetail),
    ModelFormat("tflite", (".tflite",), _is_tflite, load_tflite),
    ModelFormat("onnx", (".onnx",), _is_onnx, load_onnx),
    ModelFormat("caffe", (".prototxt", ".caffemodel"), _has_suffix(".prototxt", ".caffemodel"), load_caffe),
    ModelFormat("darknet", (".cfg", ".weights"), _has_suffix(".cfg", ".weights"), load_darknet),
    ModelFormat(
        "converted",
        (".pt2", ".pt", ".ts", ".jit", ".pb", ".keras", ".h5", ".pdmodel", ".pdiparams"),
        is_converted,
        load_converted,
    ),
)


def model_formats() -> tuple[ModelFormat, ...]:
    """Return the known formats in the order in which they are asked."""
    return _FORMATS


def _head_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def format_of(path: Path) -> ModelFormat:
    """Return the format of a file; raise LoadError when it is missing, unreadable or unknown."""
    try:
        head = b"" if path.is_dir() else _head_of(path)
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}.", hint="Check the path.") from error
    if not head and not path.is_dir():
        raise LoadError(f"{path}: the file is empty.", hint="Copy or export the model again.")
    for candidate in _FORMATS:
        if candidate.matches(path, head):
            return candidate
    known = ", ".join(suffix for candidate in _FORMATS for suffix in candidate.suffixes)
    raise LoadError(f"{path}: not a model format that is known here.", hint=f"Known suffixes: {known}.")
