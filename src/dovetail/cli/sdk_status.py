"""dovetail sdk status: which SDK is used, and which parts its simulator knows."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class SdkStatus(Verb):
    """Say which VeriSilicon SDK is used, and which parts its simulator knows."""

    def run(self, screen: Screen) -> Answer:
        from dovetail.report.page import Page, Table, flexible, left
        from dovetail.sdk import find_verisilicon, part_pid, simulated_parts

        found = find_verisilicon()
        parts = simulated_parts(found.folder.sdk) if found.folder.has_sdk else ()
        rows = (
            ("usable", "yes" if found.usable else "no"),
            ("why not", found.reason or "-"),
            ("SDK", str(found.folder.sdk)),
            ("TIM-VX", str(found.folder.timvx or "-")),
            ("shim", str(found.folder.shim)),
            ("chosen by", found.folder.chosen_by),
            ("simulated parts", str(len(parts))),
        )
        document = {
            "usable": found.usable,
            "reason": found.reason,
            "sdk": str(found.folder.sdk),
            "timvx": str(found.folder.timvx or ""),
            "shim": str(found.folder.shim),
            "chosen_by": found.folder.chosen_by,
            "parts": [{"name": name, "pid": part_pid(name)} for name in parts],
        }
        tables = (Table("VeriSilicon SDK", (left("what"), flexible("detail")), rows),)
        return Answer(document, Page("SDK", tables))
