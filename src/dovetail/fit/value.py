"""The fields that say what a frozen dataclass is: those that are compared and differ from their defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any


def stated_fields(value: Any) -> Iterator[Field[Any]]:
    """Yield the fields that have to be given to make a value again."""
    for field in fields(value):
        if not (field.init and field.compare):
            continue
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING or getattr(value, field.name) != default:
            yield field
