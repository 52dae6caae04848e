"""A JSON file with one list of names, and a list of operator types beside it that is not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.errors import FormatError
from dovetail.formats.entries import Entry
from dovetail.formats.format import WriteRequest
from dovetail.formats.spelling import Spelling
from dovetail.formats.text import json_bytes, mapping_in, read_json, texts_in


@dataclass(frozen=True, slots=True)
class NameList:
    """Encode and decode the file; `names` and `types` are the keys of its lists, `word` is what a listed name gets."""

    what: str
    names: str
    types: str
    word: str

    def encode(self, spelling: Spelling, _request: WriteRequest) -> bytes:
        """Return the file."""
        return json_bytes({self.names: list(spelling.words), self.types: []})

    def decode(self, content: bytes, path: str) -> Sequence[Entry]:
        """Return the entries; raise FormatError for a list of types: it is about operators that no plan names."""
        document = mapping_in(read_json(content, path), path, self.what)
        if document.get(self.types):
            hint = f"List nodes in {self.names} instead."
            raise FormatError(f"'{self.types}' is not read.", path=path, line=0, code="UNREAD", hint=hint)
        return [Entry(name, self.word) for name in texts_in(document.get(self.names, []), path, self.names)]
