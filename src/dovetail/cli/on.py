"""The option of commands that can use a board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.verb import Verb

if TYPE_CHECKING:
    from dovetail.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class OnVerb(Verb):
    """The option of commands that run bundles, here or on a board."""

    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="BOARD",
            help="Run on a board: grpc://HOST:PORT, grpcs://, a name (board add), or a kit's result folder.",
            show_default=False,
        ),
    ] = None

    def place(self) -> Runtime:
        """Return the board, or this machine."""
        return open_place(self.on)


def open_place(on: str | None) -> Runtime:
    """Return the board of a name, an address or a kit's result; this machine where there is none."""
    from dovetail.runtime import LocalRuntime

    if on is None:
        return LocalRuntime()
    from dovetail.kit import RecordedRuntime, is_result
    from dovetail.remote import RemoteRuntime, board_access

    if is_result(Path(on)):
        return RecordedRuntime(Path(on))
    return RemoteRuntime(board_access(on))
