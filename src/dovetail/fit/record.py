"""Requests as plain data, for logs: what differs from the defaults, by field."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from dovetail.errors import DovetailError, SearchError
from dovetail.fit.request import FitRequest
from dovetail.fit.value import stated_fields


def record_of(value: object) -> Any:
    """Return a frozen dataclass of plain values as what JSON knows, without the fields that have their defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: record_of(getattr(value, item.name)) for item in stated_fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): record_of(item) for key, item in value.items()}
    return [record_of(item) for item in value] if isinstance(value, tuple | list) else value


def request_from(record: object, where: str) -> FitRequest:
    """Return the request of a record; raise SearchError when it is none."""
    if not isinstance(record, Mapping) or not {"model", "data"} <= record.keys():
        raise SearchError(
            f"{where}: does not say which request made it.", hint="dovetail.search.replay.replay takes a request."
        )
    try:
        request = _typed(FitRequest, record)
    except (DovetailError, OverflowError, TypeError, ValueError) as error:
        raise SearchError(f"{where}: its request is damaged: {str(error)[:80]}.") from error
    assert isinstance(request, FitRequest)
    return request


def _typed(hint: Any, value: object) -> object:
    """Return plain data as a value of the hinted type; raise TypeError or ValueError when it is none."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _one_of(inner, value)
    if origin is tuple and isinstance(value, list):
        kinds = inner[:1] * len(value) if inner[1:] == (...,) else inner
        return tuple(_typed(kind, item) for kind, item in zip(kinds, value, strict=True))
    if isinstance(hint, type) and isinstance(value, Mapping) and is_dataclass(hint):
        hints = get_type_hints(hint)
        if unknown := value.keys() - hints.keys():
            raise TypeError(f"{hint.__name__} has no {sorted(unknown)[0]!r}")
        return hint(**{name: _typed(hints[name], item) for name, item in value.items()})
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {key: _typed(inner[1], item) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and type(value) is hint:
        return value
    raise TypeError(f"{str(value)[:40]!r} is no {hint}")


def _one_of(kinds: tuple[Any, ...], value: object) -> object:
    for kind in kinds:
        try:
            return _typed(kind, value)
        except (TypeError, ValueError):
            continue
    raise TypeError(f"{str(value)[:40]!r} is none of {kinds}")
