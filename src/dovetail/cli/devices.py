"""dovetail devices: what can compile and run here."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.errors import DovetailError


@dataclass(frozen=True, kw_only=True)
class Devices(Verb):
    """List backends, targets and devices, and say what is missing and why."""

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.backend.registry import backends_for
        from dovetail.report.page import Page, Table, flexible, left, wrapped

        backends, absent = _backends()
        targets: list[dict[str, object]] = [
            {
                "name": target.name,
                "title": getattr(target, "title", ""),
                "precisions": [precision.value for precision in target.precisions],
                "backends": [one.name for one in backends_for(target.name)],
            }
            for target in dovetail.known_targets()
        ]
        page = Page(
            "Devices",
            (
                Table(
                    "Backends",
                    (left("backend"), left("usable"), flexible("version"), wrapped("devices"), wrapped("why not")),
                    tuple(
                        (
                            str(entry["name"]),
                            "yes" if entry["available"] else "no",
                            str(entry.get("version", "-")),
                            _joined(entry.get("devices")) or "none",
                            str(entry["reason"]),
                        )
                        for entry in backends
                    ),
                ),
                *((Table("Not here", (left("device"), wrapped("why")), tuple(absent)),) if absent else ()),
                Table(
                    "Targets",
                    (left("target"), wrapped("what"), wrapped("precisions, cheapest first"), left("backends")),
                    tuple(
                        (
                            str(entry["name"]),
                            str(entry["title"]),
                            _joined(entry["precisions"]),
                            _joined(entry["backends"]),
                        )
                        for entry in targets
                    ),
                ),
            ),
        )
        return Answer({"backends": backends, "targets": targets}, page)


def _backends() -> tuple[list[dict[str, object]], list[tuple[str, str]]]:
    """Return what is known of every backend, and the devices that are not here with the reasons."""
    from dovetail.backend.registry import backend, backend_statuses

    backends: list[dict[str, object]] = []
    absent: list[tuple[str, str]] = []
    for status in backend_statuses():
        entry: dict[str, object] = {"name": status.name, "available": status.available, "reason": status.reason}
        if status.available:
            one = backend(status.name)
            try:
                entry |= {"version": one.version, "devices": [device.name for device in one.devices()]}
                absent_devices = one.abilities().absent_devices
                if absent_devices is not None:
                    gone = absent_devices()
                    entry["absent"] = [{"name": item.name, "reason": item.reason} for item in gone]
                    absent += [(item.name, item.reason) for item in gone]
            except DovetailError as error:
                entry |= {"version": one.version, "devices": [], "reason": str(error)}
        backends.append(entry)
    return backends, absent


def _joined(names: object) -> str:
    return ", ".join(str(name) for name in names) if isinstance(names, list) else ""
