"""Frozen dataclasses as plain JSON values, and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from dovetail.errors import SearchError


def value_of(kind: Any, document: object, where: str) -> Any:
    """Return a JSON value as a type: the inverse of `dataclasses.asdict` for dataclasses of plain values.

    Raises SearchError naming the field that does not fit.
    """
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(document, dict):
        hints = typing.get_type_hints(kind)
        if set(document) == set(hints):
            return kind(**{name: value_of(hints[name], value, f"{where}.{name}") for name, value in document.items()})
    inner = typing.get_args(kind)
    match typing.get_origin(kind):
        case types.UnionType:
            return None if document is None else value_of(inner[0], document, where)
        case origin if origin is tuple and isinstance(document, list | tuple):
            return tuple(value_of(inner[0], item, where) for item in document)
        case origin if origin is Mapping and isinstance(document, dict):
            return {str(name): value_of(inner[1], item, f"{where}.{name}") for name, item in document.items()}
    if isinstance(kind, type) and issubclass(kind, Enum) and document in [item.value for item in kind]:
        return kind(document)
    if kind is float and isinstance(document, int | float) and not isinstance(document, bool):
        try:
            return float(document)
        except OverflowError as error:
            raise SearchError(f"{where}: a number of {len(str(document))} digits does not fit.") from error
    if kind in (int, str, bool) and type(document) is kind:
        return document
    raise SearchError(f"{where}: {str(document)[:40]!r} does not fit.", hint="It is of another version, or damaged.")
