"""Find formats; they come only from entry points and are loaded on first use."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from dovetail.errors import DovetailError, suggestion
from dovetail.formats.format import Format

GROUP = "dovetail.formats"


@cache
def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def format_names() -> tuple[str, ...]:
    """Return the names of the installed formats."""
    return tuple(sorted(_points()))


@cache
def find_format(name: str) -> Format:
    """Return the format of that name; raise DovetailError naming the nearest known one."""
    point = _points().get(name)
    if point is None:
        raise DovetailError(f"format '{name}' is unknown.", hint=suggestion(name, format_names()))
    try:
        loaded: Format = point.load()
    except ImportError as error:
        raise DovetailError(f"format '{name}' cannot be used: {error}.", hint="Install what it needs.") from error
    return loaded


def known_formats() -> tuple[Format, ...]:
    """Return every installed format."""
    return tuple(find_format(name) for name in format_names())
