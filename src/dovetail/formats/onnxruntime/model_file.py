"""Read ONNX files that nobody vouches for."""

from __future__ import annotations

from onnx import ModelProto

from dovetail.errors import FormatError

MAX_MODEL_BYTES = 2 * 1024**3


def read_model(content: bytes, path: str) -> ModelProto:
    """Return the model in a file; raise FormatError when it is none."""
    if len(content) > MAX_MODEL_BYTES:
        raise FormatError("larger than protobuf allows.", path=path, line=0, code="TOO_LARGE")
    try:
        model = ModelProto()
        model.ParseFromString(content)
    except Exception as error:  # protobuf's own error type has no typed import
        raise FormatError("not an ONNX model.", path=path, line=0, code="NOT_ONNX") from error
    if not model.graph.node:
        raise FormatError("not an ONNX model: it has no node.", path=path, line=0, code="NOT_ONNX")
    return model
