"""dovetail farm worker: a board joins a farm."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field
from typing import Annotated

import typer

from dovetail.cli.output import tell
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class FarmWorker(Verb):
    """Join a farm with a board: a worker of a Dask cluster that runs bundles on it, one task at a time.

    It runs beside the board or on it, until Ctrl-C or SIGTERM. Its resources are what the board has: npu, the parts,
    the backends in their versions. While the board does not answer, the worker is out of the farm, what it was doing
    is done by others, and it comes back when the board does.
    """

    scheduler: Annotated[
        str,
        typer.Argument(metavar="SCHEDULER", help="tcp://host:port, or the scheduler's file.", show_default=False),
    ]
    on: Annotated[
        str,
        typer.Option(
            "--on", metavar="BOARD", help="grpc://HOST:PORT, grpcs://, or a name (board add).", show_default=False
        ),
    ]
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Its name in the farm; else that of --on.", show_default=False),
    ] = None
    part: Annotated[
        list[str],
        typer.Option(
            "--part",
            metavar="TARGET",
            help="A target that it runs, repeatable: vsi:v853; else all that its backends serve.",
        ),
    ] = field(default_factory=list)
    run_seconds: Annotated[
        float, typer.Option("--run-seconds", metavar="S", help="A board that takes longer for a batch is lost.")
    ] = 120.0

    def run(self, screen: Screen) -> Answer:
        from dovetail.errors import RemoteError
        from dovetail.remote import board_access
        from dovetail.remote.farm import BoardLink, serve_board
        from dovetail.report.page import Facts, Page

        if not 0 < self.run_seconds < float("inf"):
            raise RemoteError(f"{self.run_seconds:g} s is no time for a run.", option="run_seconds")
        access = board_access(self.on)
        link = BoardLink(self.name or self.on, access, tuple(self.part), self.run_seconds)
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
        joined = serve_board(self.scheduler, link, _say)
        facts = (("board", link.name), ("address", access.url), ("joined", f"{joined} times"))
        document = {"board": link.name, "url": access.url, "joined": joined}
        return Answer(document, Page("Left the farm", (Facts("", facts),)))


def _say(text: str) -> None:
    tell(f"{text}\n")
