"""ExecuTorch: `skip_node_id_set` of the Qualcomm partitioner and its like, as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.errors import FormatError
from dovetail.formats.binding import bind_sources
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Side, Spelling
from dovetail.formats.text import json_bytes, mapping_in, read_json, texts_in
from dovetail.formats.words import skip_list

_WORD = "skip"


def _encode(spelling: Spelling, _request: WriteRequest) -> bytes:
    return json_bytes({"skip_node_id_set": list(spelling.words), "skip_node_op_set": []})


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document = mapping_in(read_json(content, path), path, "a skip list")
    if document.get("skip_node_op_set"):
        hint = "List nodes in skip_node_id_set instead."
        raise FormatError("'skip_node_op_set' is not read.", path=path, line=0, code="UNREAD", hint=hint)
    names = texts_in(document.get("skip_node_id_set", []), path, "skip_node_id_set")
    return [Entry(name, _WORD) for name in names]


FORMAT = EntryFormat(
    name="executorch",
    title="ExecuTorch: nodes that a partitioner leaves to the CPU",
    pattern="*skip*.json",
    granularity="node of the exported program",
    vocabulary=skip_list(_WORD, Side.CPU),
    bind=bind_sources,
    encode=_encode,
    decode=_decode,
)
