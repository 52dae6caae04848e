"""dovetail board list: the boards of this user, and what is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.remote import BoardAccess


@dataclass(frozen=True, kw_only=True)
class BoardList(Verb):
    """List the boards that have names, with their devices, or why they do not answer."""

    def run(self, screen: Screen) -> Answer:
        from dovetail.remote import known_boards
        from dovetail.report.page import Page, Table, flexible, left, wrapped

        found = [_told(name, access) for name, access in sorted(known_boards().items())]
        rows = tuple(
            (
                str(one["name"]),
                str(one["url"]),
                "yes" if one["token"] else "no",
                ", ".join(map(str, one["devices"])) if isinstance(one["devices"], list) else str(one["reason"]),
            )
            for one in found
        )
        columns = (left("name"), flexible("address"), left("token"), wrapped("devices, or why it does not answer"))
        return Answer({"boards": found}, Page("Boards", (Table("", columns, rows),)))


def _told(name: str, access: BoardAccess) -> dict[str, object]:
    """Return what is known of a board, and what it says."""
    from dovetail.remote import RemoteRuntime

    told: dict[str, object] = {"name": name, "url": access.url, "token": access.token is not None}
    try:
        with RemoteRuntime(access) as board:
            devices = [device for backend in board.devices() for device in backend.devices]
    except DovetailError as error:
        return told | {"devices": None, "reason": str(error)}
    return told | {"devices": devices, "reason": ""}
