"""dovetail farm status: who is in a farm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb

if TYPE_CHECKING:
    from dovetail.remote.farm import FarmBoard, FarmStatus
    from dovetail.report.page import Table


@dataclass(frozen=True, kw_only=True)
class FarmStatusVerb(Verb):
    """Show the boards of a farm, what each is doing, which were drained and why, and the workers that simulate."""

    scheduler: Annotated[
        str,
        typer.Argument(metavar="SCHEDULER", help="tcp://host:port, or the scheduler's file.", show_default=False),
    ]

    def run(self, screen: Screen) -> Answer:
        from dovetail.remote.farm import Farm
        from dovetail.report.page import Page

        with Farm(self.scheduler) as farm:
            found = farm.status()
        tables = (_boards(found), *((_workers(found),) if found.workers else ()))
        return Answer(_document(self.scheduler, found), Page(f"Farm at {self.scheduler}", tables))


def _boards(found: FarmStatus) -> Table:
    from dovetail.report.page import Table, flexible, left, right, wrapped

    rows = tuple((one.name, one.state.value, str(one.tasks), one.url, _said(one)) for one in found.boards)
    columns = (left("board"), left("state"), right("tasks"), flexible("address"), wrapped("parts, or why it is away"))
    return Table("Boards", columns, rows, "" if rows else "None: dovetail farm worker SCHEDULER --on BOARD.")


def _said(board: FarmBoard) -> str:
    return ", ".join(board.parts) if board.is_there else board.reason


def _workers(found: FarmStatus) -> Table:
    from dovetail.report.page import Table, flexible, right

    rows = tuple(
        (one.address, str(one.threads), str(one.tasks), ", ".join(f"{name}={x:g}" for name, x in one.resources.items()))
        for one in found.workers
    )
    columns = (flexible("address"), right("threads"), right("tasks"), flexible("resources"))
    return Table("Workers without a board, which simulate", columns, rows)


def _document(scheduler: str, found: FarmStatus) -> dict[str, object]:
    boards = [
        {
            "name": one.name,
            "url": one.url,
            "state": one.state.value,
            "reason": one.reason,
            "tasks": one.tasks,
            "worker": one.worker or None,
            "parts": list(one.parts),
            "backends": dict(one.backends),
            "resources": dict(one.offers),
        }
        for one in found.boards
    ]
    workers = [
        {
            "name": one.name,
            "address": one.address,
            "threads": one.threads,
            "tasks": one.tasks,
            "resources": dict(one.resources),
        }
        for one in found.workers
    ]
    return {"scheduler": scheduler, "boards": boards, "workers": workers}
