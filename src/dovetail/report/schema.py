"""The JSON schema of `dovetail report --json`, made of the records that are written."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from dovetail.report.network import DrawnNetwork
from dovetail.report.page import Tone
from dovetail.report.view import BLOCKS, RunView

KIND, SCHEMA = "dovetail-runs", 1
_TEXT: Final = {"type": "string"}
_PLAIN: Final[Mapping[type, Mapping[str, object]]] = {
    str: _TEXT,
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    # JSON has no infinity and no NaN.
    float: {"type": ["number", "null"]},
    bytes: {"type": "string", "contentEncoding": "base64"},
}


def runs_document(views: Sequence[RunView], output: str, size_bytes: int) -> dict[str, object]:
    """Return what `dovetail report --json` says: where the report is, and what is in it, run by run."""
    runs = [view.document() for view in views]
    return {"schema": SCHEMA, "kind": KIND, "output": output, "bytes": size_bytes, "runs": runs}


def runs_schema() -> dict[str, object]:
    """Return the schema (JSON Schema, draft 2020-12)."""
    run = {
        "name": _TEXT,
        "title": _TEXT,
        "verdict": _TEXT,
        "tone": _of(Tone),
        "blocks": {"type": "array", "items": {"anyOf": [_block(word, kind) for word, kind in BLOCKS.items()]}},
        "network": _of(DrawnNetwork),
        "reproduce": _listed(_TEXT),
    }
    whole = {
        "schema": {"const": SCHEMA},
        "kind": {"const": KIND},
        "output": _TEXT,
        "bytes": {"type": "integer", "minimum": 0},
        "runs": _listed(_object(run)),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Searches of Dovetail as a report shows them",
        **_object(whole),
    }


def schema_text() -> str:
    """Return the schema as JSON text."""
    return json.dumps(runs_schema(), indent=1) + "\n"


def _object(fields: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": dict(fields), "required": list(fields), "additionalProperties": False}


def _listed(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def _block(word: str, kind: type) -> dict[str, object]:
    return _object({"block": {"const": word}, **_fields(kind)})


def _fields(kind: type) -> dict[str, object]:
    return {name: _of(hint) for name, hint in get_type_hints(kind).items()}


def _of(hint: Any) -> Mapping[str, object]:
    """Return the schema of a type that records have fields of; raise TypeError for others."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [{"type": "null"}, *(_of(item) for item in inner if item is not type(None))]}
    if origin is tuple and inner[1:] == (...,):
        return _listed(_of(inner[0]))
    if origin is tuple:
        count = len(inner)
        places = [_of(item) for item in inner]
        return {"type": "array", "prefixItems": places, "minItems": count, "maxItems": count}
    if is_dataclass(hint) and isinstance(hint, type):
        return _object(_fields(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [item.value for item in hint]}
    if hint in _PLAIN:
        return _PLAIN[hint]
    raise TypeError(f"{hint} has no schema")
