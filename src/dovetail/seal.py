"""Documents read with care, and such as carry their own checksum: a damaged one is an error, never another answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_FIELD = "checksum"


def parse_json(text: str | bytes) -> Any:
    """Return the JSON value in a text; raise ValueError where there is none, or a text in it that is no Unicode."""
    value = json.loads(text)
    if b"\\ud" in text.lower() if isinstance(text, bytes) else "\\ud" in text.lower():
        # Half of a pair: no file could hold it again.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the document in a TOML text; raise ValueError where there is none, or an integer of more than 64 bits."""
    import tomllib  # Only people write TOML: a board need not pay for the parser.

    try:
        document = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    left: list[object] = [document]
    while left:
        value = left.pop()
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            # TOML knows none; neither a float nor a message could hold it.
            raise ValueError("an integer of more than 64 bits")
        left += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return document


def sealed(document: Mapping[str, object]) -> dict[str, object]:
    """Return a JSON document with its checksum as the last field."""
    return {**document, _FIELD: _checksum(document)}


def unsealed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON document without its checksum; raise ValueError where it does not fit.

    One without a checksum is taken as it is: a person who edits a file takes the line out.
    """
    rest = {name: value for name, value in document.items() if name != _FIELD}
    if _FIELD in document and document[_FIELD] != _checksum(rest):
        raise ValueError(
            f"damaged, or edited by hand: the content does not have its {_FIELD} (take that line out to go on)"
        )
    return rest


def _checksum(document: Mapping[str, object]) -> str:
    # Read back first: keys that are numbers become texts, which are sorted otherwise.
    text = json.dumps(json.loads(json.dumps(document)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
