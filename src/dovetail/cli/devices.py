"""dovetail devices: what can compile and run here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.cli.on import OnVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dovetail.report.page import Table
    from dovetail.runtime import BackendPresence


@dataclass(frozen=True, kw_only=True)
class Devices(OnVerb):
    """List backends, targets and devices, and say what is missing and why; with --on those of a board."""

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.backend.registry import backends_for
        from dovetail.report.page import Page, Table, left, wrapped

        with self.place() as place:
            found = place.devices()
        backends = [_document(one) for one in found]
        absent = [(item.name, item.reason) for one in found for item in one.absent]
        # What can be compiled for is a matter of this machine.
        targets: list[dict[str, object]] = [
            {
                "name": target.name,
                "title": getattr(target, "title", ""),
                "precisions": [precision.value for precision in target.precisions],
                "backends": [one.name for one in backends_for(target.name)],
            }
            for target in (dovetail.known_targets() if self.on is None else ())
        ]
        tables = [_backend_table(backends)]
        if absent:
            tables.append(Table("Not here", (left("device"), wrapped("why")), tuple(absent)))
        if targets:
            tables.append(_target_table(targets))
        title = "Devices" if self.on is None else f"Devices of {self.on}"
        return Answer({"on": self.on, "backends": backends, "targets": targets}, Page(title, tuple(tables)))


def _backend_table(backends: Sequence[Mapping[str, object]]) -> Table:
    from dovetail.report.page import Table, flexible, left, wrapped

    rows = tuple(
        (
            str(entry["name"]),
            "yes" if entry["available"] else "no",
            str(entry.get("version", "-")),
            _joined(entry.get("devices")) or "none",
            str(entry["reason"]),
        )
        for entry in backends
    )
    columns = (left("backend"), left("usable"), flexible("version"), wrapped("devices"), wrapped("why not"))
    return Table("Backends", columns, rows)


def _target_table(targets: Sequence[Mapping[str, object]]) -> Table:
    from dovetail.report.page import Table, left, wrapped

    rows = tuple(
        (str(entry["name"]), str(entry["title"]), _joined(entry["precisions"]), _joined(entry["backends"]))
        for entry in targets
    )
    columns = (left("target"), wrapped("what"), wrapped("precisions, cheapest first"), left("backends"))
    return Table("Targets", columns, rows)


def _document(one: BackendPresence) -> dict[str, object]:
    """Return what is known of a backend."""
    entry: dict[str, object] = {"name": one.name, "available": one.available, "reason": one.reason}
    if one.available:
        absent = [{"name": item.name, "reason": item.reason} for item in one.absent]
        entry |= {"version": one.version, "devices": list(one.devices), "absent": absent}
    return entry


def _joined(names: object) -> str:
    return ", ".join(str(name) for name in names) if isinstance(names, list) else ""
