"""Frozen dataclasses of plain values as Python source: evaluated, it gives an equal value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from importlib import import_module
from math import isfinite
from pathlib import PurePath

from dovetail.fit.value import stated_fields

_WIDTH = 100
_STEP = "    "


_Imports = set[tuple[str, str]]
"""Modules with the names to take from them; an empty name takes the module itself."""


@dataclass(frozen=True, slots=True)
class Source:
    """An expression, and the import statements that it needs."""

    text: str
    imports: tuple[str, ...]


def source_of(value: object) -> Source:
    """Return a value as source; raise TypeError when it holds anything but plain values.

    Plain are None, booleans, numbers, strings, paths, enums, tuples, lists, dictionaries, and dataclasses of them.
    Fields that have their defaults are left out.
    """
    imports: _Imports = set()
    text = _text(value, 0, imports)
    names: dict[str, list[str]] = {}
    for module, name in sorted(imports):
        if name:
            names.setdefault(module, []).append(name)
    whole = (f"import {module}" for module, name in sorted(imports) if not name)
    return Source(text, (*whole, *(f"from {module} import {', '.join(each)}" for module, each in names.items())))


def _text(value: object, depth: int, imports: _Imports) -> str:
    match value:
        case Enum():
            return f"{_name(type(value), imports)}.{value.name}"
        case PurePath():
            imports.add(("pathlib", "Path"))
            return f"Path({str(value)!r})"
        case float():
            return repr(float(value)) if isfinite(value) else f'float("{value}")'
        case None | bool() | int() | str():
            return repr(value)
        case Mapping():
            pairs = [f"{key!r}: {_text(item, depth + 1, imports)}" for key, item in value.items()]
            return _bracketed("{", pairs, "}", depth)
        case list():
            return _bracketed("[", [_text(item, depth + 1, imports) for item in value], "]", depth)
        case tuple():
            items = [_text(item, depth + 1, imports) for item in value]
            return f"({items[0]},)" if len(items) == 1 else _bracketed("(", items, ")", depth)
    if is_dataclass(value) and not isinstance(value, type):
        given = [f"{item.name}={_text(getattr(value, item.name), depth + 1, imports)}" for item in stated_fields(value)]
        return _bracketed(f"{_name(type(value), imports)}(", given, ")", depth)
    raise TypeError(f"{type(value).__name__} has no form as source")


def _bracketed(opened: str, items: Sequence[str], closed: str, depth: int) -> str:
    """Return items on one line where they fit, else one a line."""
    line = f"{opened}{', '.join(items)}{closed}"
    if len(_STEP) * depth + len(line) <= _WIDTH and "\n" not in line:
        return line
    indent = _STEP * (depth + 1)
    return "".join((f"{opened}\n", *(f"{indent}{item},\n" for item in items), f"{_STEP * depth}{closed}"))


def _name(kind: type, imports: _Imports) -> str:
    """Return what a type is called where it is public: by its package, or imported from the outermost room."""
    name, parts = kind.__name__, kind.__module__.split(".")
    package = import_module(parts[0])
    if name in getattr(package, "__all__", ()) and getattr(package, name) is kind:
        imports.add((parts[0], ""))
        return f"{parts[0]}.{name}"
    for count in range(1, len(parts) + 1):
        room = ".".join(parts[:count])
        if getattr(import_module(room), name, None) is kind:
            imports.add((room, name))
            return name
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be imported by its name")
