"""A board on its way into a farm."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.remote.access import BoardAccess


@dataclass(frozen=True, slots=True)
class BoardLink:
    """A board that joins a farm under a name, which nobody else there has."""

    name: str
    access: BoardAccess
    parts: tuple[str, ...] = ()
    """The targets that it runs; without them, all that its backends serve, as this machine knows them."""
    run_s: float = 120.0
    """A board that takes longer for a batch is lost."""
