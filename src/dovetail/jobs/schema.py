"""The JSON schema of a job, as `dovetail job show --json` prints it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from dovetail.jobs.record import KIND, SCHEMA


def _record(required: Mapping[str, object], description: str = "") -> dict[str, object]:
    """Return the schema of an object that has these fields and no others."""
    told = {"description": description} if description else {}
    return {
        "type": "object",
        **told,
        "properties": dict(required),
        "required": list(required),
        "additionalProperties": False,
    }


def _maybe(kind: str, description: str = "") -> dict[str, object]:
    return {"type": [kind, "null"], **({"description": description} if description else {})}


_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_BESIDE: Final = _record({"predicted": _maybe("number"), "measured": _maybe("number")})
_REQUEST: Final = _record(
    {
        "bundle": _TEXT,
        "data": _TEXT,
        "on": _maybe("string", "the board as it was named; null is this machine"),
        "labels": _maybe("string"),
        "preprocess": _maybe("string"),
        "metrics": {"type": "array", "items": _TEXT},
        "samples": _maybe("integer"),
        "runs": _COUNT,
        "simulate": {"type": "boolean"},
    },
    "what was asked for",
)
_UNITS: Final = _record(
    {"npu": _COUNT, "cpu": _COUNT, "engines": {"type": "object", "additionalProperties": _COUNT}},
    "units as the plan has them",
)
_SCORE: Final = _record({"metric": _TEXT, "higher_is_better": {"type": "boolean"}, "score": _BESIDE})
_FIGURES: Final = _record(
    {
        "devices": {"type": "array", "items": _TEXT, "description": "of every partition"},
        "samples": _COUNT,
        "time_ns": {**_BESIDE, "description": "of a request: the work of its units; the median"},
        "predicted_by": _TEXT,
        "memory_bytes": {**_BESIDE, "description": "constants and activations; what the model added to the process"},
        "process_bytes": _maybe("integer", "the process at most"),
        "units": {"anyOf": [{"type": "null"}, _UNITS]},
        "units_moved": _maybe("integer", "in partitions of which operators ran elsewhere; null: no backend tells"),
        "scores": {"type": "array", "items": _SCORE},
        "equal_share": _maybe("number", "of the elements of outputs, those that a run of the bundle here gives"),
        "scenarios": {
            "type": "object",
            "description": "LoadGen's: SingleStream and Offline",
            "properties": {"SingleStream": {"type": "object"}, "Offline": {"type": "object"}},
            "required": ["SingleStream", "Offline"],
        },
        "notes": {"type": "array", "items": _TEXT},
    }
)
JOB_SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A job of Dovetail: a bundle run, timed and scored at a place, beside what was predicted",
    **_record(
        {
            "schema": {"const": SCHEMA},
            "kind": {"const": KIND},
            "id": {"type": "string", "pattern": "^[a-hj-km-np-z2-9]{8}$"},
            "created": {"type": "string", "format": "date-time"},
            "model": _TEXT,
            "bundle_digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "request": _REQUEST,
            "figures": {"anyOf": [{"type": "null"}, _FIGURES]},
            "reason": {"type": "string", "description": "why it stopped, where it did"},
            "state": {"enum": ["running", "stopped", "done"]},
            "samples_done": _COUNT,
        }
    ),
}


def schema_text() -> str:
    """Return the schema as JSON text."""
    return json.dumps(JOB_SCHEMA, indent=1) + "\n"
