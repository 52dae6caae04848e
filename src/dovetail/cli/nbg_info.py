"""dovetail nbg info: what a binary network is for, and whether it is whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class NbgInfo(Verb):
    """Read a VeriSilicon binary network (.nbg): its version, the part it is for, its inputs and outputs.

    A file that is cut short, damaged or something else is refused with the reason.
    """

    file: Annotated[Path, typer.Argument(help="The binary network.", show_default=False)]

    def run(self, screen: Screen) -> Answer:
        from dovetail.report.page import Page, Table, flexible, left
        from dovetail.sdk import find_verisilicon, part_pid, simulated_parts
        from dovetail.sdk.nbg import read_file

        facts = read_file(self.file)
        folder = find_verisilicon().folder
        known = simulated_parts(folder.sdk) if folder.has_sdk else ()
        parts = [name for name in known if part_pid(name) == facts.pid]
        rows = (
            ("format version", f"{facts.version:#010x}"),
            ("part (PID)", f"{facts.pid:#x}"),
            ("simulator's names for it", ", ".join(parts) or "-"),
            ("network", facts.name or "-"),
            ("inputs", "-" if facts.inputs is None else str(facts.inputs)),
            ("outputs", "-" if facts.outputs is None else str(facts.outputs)),
            ("size", f"{facts.size_bytes} bytes"),
        )
        table = Table("Binary network", (left("what"), flexible("value")), rows)
        return Answer({**asdict(facts), "parts": parts}, Page(self.file.name, (table,)))
