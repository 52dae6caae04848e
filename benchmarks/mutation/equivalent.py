"""Mutants that no test can kill, with the reason: `equivalent.toml`, read by people."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mutation.sites import Source, keys

LIST = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Equivalent:
    """A mutant that behaves as the code does."""

    key: str
    file: str
    change: str
    """The change, for readers."""
    reason: str
    """Why no input can tell the two apart."""


def read_equivalents(path: Path = LIST) -> dict[str, Equivalent]:
    """Return the list by key."""
    entries = [Equivalent(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])]
    listed = {entry.key: entry for entry in entries}
    if len(listed) < len(entries):
        raise ValueError(f"{path}: a mutant is listed twice")
    return listed


def stale(root: Path, entries: Iterable[Equivalent]) -> list[Equivalent]:
    """Return the entries that name no mutant of the code as it is."""
    entries = list(entries)
    known: set[str] = set()
    for file in sorted({entry.file for entry in entries}):
        if (root / file).is_file():
            known |= {key for site in Source(root, file).sites() for key in keys(site)}
    return [entry for entry in entries if entry.key not in known]
