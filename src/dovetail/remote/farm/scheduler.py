"""How a farm is named: by its scheduler."""

from __future__ import annotations

from pathlib import Path

from dovetail.remote.boards import known_boards

_SCHEMES = ("tcp", "tls", "ws", "wss")


def is_farm(text: str) -> bool:
    """Tell whether a text is the address of a Dask scheduler, or its scheduler file, and no board's name."""
    scheme, found, _ = text.partition("://")
    return scheme in _SCHEMES if found else Path(text).is_file() and text not in known_boards()
