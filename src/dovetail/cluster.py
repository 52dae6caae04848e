"""A cluster of Dask: a connection to its scheduler, and what workers of ours offer there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dovetail.errors import RemoteError

SIMULATOR = "sim"
"""The resource of workers that are there for simulation: where some offer it, searches go to them alone."""

_WITHIN = "20s"


def scheduler_keywords(where: str, address: str = "address") -> dict[str, str]:
    """Return where a scheduler is as a class of Dask takes it: its file, or its address by the class's own word."""
    by_file = "://" not in where and Path(where).is_file()
    return {"scheduler_file": where} if by_file else {address: where}


def open_client(where: str) -> Any:
    """Return a `distributed.Client`; raise RemoteError when `distributed` is missing or nobody answers."""
    try:
        from distributed import Client
    except ImportError as error:
        raise without_distributed() from error
    try:
        return Client(**scheduler_keywords(where), timeout=_WITHIN, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RemoteError(
            f"{where}: no Dask scheduler answers: {str(error)[:120]}.", hint="Start one: dask scheduler."
        ) from error


def without_distributed() -> RemoteError:
    """Return the error that says what has to be installed."""
    return RemoteError("a Dask cluster needs distributed.", hint="pip install 'dovetail[cluster]'")
