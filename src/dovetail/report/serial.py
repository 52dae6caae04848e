"""Write reports as JSON. Numbers that JSON lacks become null."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from dovetail.plan.placement import Placement
from dovetail.report.record import Report

SCHEMA = 1


def report_to_json(report: Report) -> str:
    """Return a report as JSON text."""
    document = {"schema": SCHEMA, "kind": "dovetail-report", **report_document(report)}
    return json_text(document)


def report_document(report: Report) -> Mapping[str, object]:
    """Return a report as plain data."""
    plain = plain_data(report)
    assert isinstance(plain, dict)
    return plain


def json_text(document: object) -> str:
    """Return plain data as JSON text."""
    return json.dumps(plain_data(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plain_data(value: object) -> object:
    """Return records, enums, placements and mappings as what JSON knows."""
    match value:
        case Placement() | Path():
            return str(value)
        case Enum():
            return value.value
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case Mapping():
            return {str(key): plain_data(item) for key, item in value.items()}
        case Sequence():
            return [plain_data(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")
