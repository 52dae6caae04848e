"""Where environments lie on this machine, and whether they are there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from dovetail.environments.catalogue import Environment
from dovetail.sdk.location import data_folder

RECORD = "installed.json"
_MAX_RECORD_BYTES = 1 << 16


class State(Enum):
    """Whether an environment can be used."""

    ABSENT = "absent"
    READY = "ready"
    OUTDATED = "outdated"
    """Made from other requirements than those of this version of Dovetail: it is made again when it is needed."""


@dataclass(frozen=True, slots=True)
class EnvironmentState:
    """Where an environment lies and in what state; `size_bytes` is 0 where it is absent."""

    environment: Environment
    folder: Path
    state: State
    size_bytes: int = 0

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return python_of(self.folder)


def environments_folder() -> Path:
    """Return the folder that holds all environments."""
    return data_folder() / "environments"


def folder_of(environment: Environment) -> Path:
    """Return the folder of an environment."""
    return environments_folder() / environment.name


def python_of(folder: Path) -> Path:
    """Return the interpreter of an environment."""
    return folder / "bin" / "python"


def state_of(environment: Environment, *, measure: bool = False) -> EnvironmentState:
    """Return the state of an environment; `measure` counts its bytes, which takes a moment."""
    folder = folder_of(environment)
    digest = _recorded_digest(folder)
    if digest is None or not python_of(folder).exists():
        return EnvironmentState(environment, folder, State.ABSENT)
    state = State.READY if digest == environment.digest else State.OUTDATED
    return EnvironmentState(environment, folder, state, folder_bytes(folder) if measure else 0)


def _recorded_digest(folder: Path) -> str | None:
    try:
        with (folder / RECORD).open("rb") as file:
            record = json.loads(file.read(_MAX_RECORD_BYTES))
    except (OSError, RecursionError, ValueError):
        return None
    digest = record.get("digest") if isinstance(record, dict) else None
    return digest if isinstance(digest, str) else None


def folder_bytes(folder: Path) -> int:
    """Return the size of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size if not path.is_dir() else 0
        except OSError:
            continue
    return total
