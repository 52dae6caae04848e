"""TensorFlow Lite's converter: `denylisted_nodes` of its quantisation debugger, as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.errors import FormatError
from dovetail.formats.binding import bind_tensors
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Spelling
from dovetail.formats.text import json_bytes, mapping_in, read_json, texts_in
from dovetail.formats.words import skip_list

_WORD = "denylisted"


def _encode(spelling: Spelling, _request: WriteRequest) -> bytes:
    return json_bytes({"denylisted_nodes": list(spelling.words), "denylisted_ops": []})


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document = mapping_in(read_json(content, path), path, "a denylist")
    if document.get("denylisted_ops"):
        hint = "List nodes in denylisted_nodes instead."
        raise FormatError("'denylisted_ops' is not read.", path=path, line=0, code="UNREAD", hint=hint)
    names = texts_in(document.get("denylisted_nodes", []), path, "denylisted_nodes")
    return [Entry(name, _WORD) for name in names]


FORMAT = EntryFormat(
    name="tflite",
    title="TensorFlow Lite: nodes that stay float",
    pattern="*denylist*.json",
    granularity="output tensor of an operator",
    vocabulary=skip_list(_WORD),
    bind=bind_tensors,
    encode=_encode,
    decode=_decode,
)
