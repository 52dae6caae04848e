"""dovetail nbg extract: the binary networks of a bundle as files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.files import new_folder


@dataclass(frozen=True, kw_only=True)
class NbgExtract(Verb):
    """Write the binary networks of a bundle into a folder, for the vendor's own runtime on a board.

    networks.json beside them has, in the order in which they run, every network's inputs and outputs in its own order,
    with shapes, types, scales and zero points, and the partitions that run elsewhere.
    """

    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle (dovetail compile).", show_default=False)]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new folder, or one of these.")]

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.compile import vendor_files
        from dovetail.compile.binaries import RECORD
        from dovetail.report.page import Facts, Page, Table, flexible, left

        files = vendor_files(dovetail.load_bundle(self.bundle))
        with new_folder(self.output, lambda place: (place / RECORD).is_file()) as draft:
            for name, content in files.items():
                (draft / name).write_bytes(content)
        document = json.loads(files[RECORD])
        rows = tuple(
            (
                str(row["partition"]),
                row["target"],
                row.get("file", "runs elsewhere"),
                ", ".join(item["source_name"] for item in row["inputs"]),
                ", ".join(item["source_name"] for item in row["outputs"]),
            )
            for row in document["networks"]
        )
        columns = (left("part"), left("target"), flexible("file"), flexible("reads"), flexible("writes"))
        blocks = (Facts("", (("folder", str(self.output)), ("about them", RECORD))), Table("Networks", columns, rows))
        return Answer({"folder": str(self.output), **document}, Page(f"Bundle {self.bundle}", blocks))
