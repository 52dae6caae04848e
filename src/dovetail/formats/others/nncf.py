"""NNCF: the arguments of `nncf.IgnoredScope`, as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.errors import FormatError
from dovetail.formats.binding import bind_sources
from dovetail.formats.entries import Entry, EntryFormat
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Spelling
from dovetail.formats.text import json_bytes, mapping_in, read_json, texts_in
from dovetail.formats.words import skip_list

_WORD = "ignored"
_UNREAD = ("types", "subgraphs")


def _encode(spelling: Spelling, _request: WriteRequest) -> bytes:
    return json_bytes({"names": list(spelling.words)})


def _decode(content: bytes, path: str) -> Sequence[Entry]:
    document = mapping_in(read_json(content, path), path, "an ignored scope")
    for key in _UNREAD:
        if document.get(key):
            raise FormatError(
                f"'{key}' is not read.", path=path, line=0, code="UNREAD", hint="List names or patterns instead."
            )
    names = texts_in(document.get("names", []), path, "names")
    patterns = texts_in(document.get("patterns", []), path, "patterns")
    # NNCF matches patterns from the start of a name to its end.
    return [Entry(name, _WORD) for name in names] + [
        Entry(f"^(?:{pattern})$", _WORD, pattern=True) for pattern in patterns
    ]


FORMAT = EntryFormat(
    name="nncf",
    title="NNCF: ignored scope",
    pattern="*ignored_scope*.json",
    granularity="node of the ONNX file",
    vocabulary=skip_list(_WORD),
    bind=bind_sources,
    encode=_encode,
    decode=_decode,
)
