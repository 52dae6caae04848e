"""dovetail board kit: all that a board without a network needs, in one tar."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.options import DataVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer


@dataclass(frozen=True, kw_only=True)
class BoardKit(DataVerb):
    """Write one tar with a bundle, samples, what runs them and a script, for a board without a network.

    Copy it there, unpack it, run its run.sh, and copy the folder 'result' back: `dovetail run`, `compare` and `profile`
    take that folder as --on. The board needs Python 3.11 and the packages that are named here; nothing is installed.
    With --runner it needs no Python: give dovetail-run, built for the board (docs/how-to/boards.md).
    """

    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle (dovetail compile).", show_default=False)]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The .tar file.")]
    limit: Annotated[int, typer.Option("--samples", metavar="N", help="Use only the first N samples.")] = 16
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="Runs that are timed; 0 times nothing.")] = 20
    layers: Annotated[bool, typer.Option("--layers", help="Bring every tensor back that the board can read.")] = False
    runner: Annotated[Path | None, typer.Option("--runner", metavar="FILE", help="dovetail-run for the board.")] = None

    @property
    def planned_by(self) -> Path | None:
        return self.bundle

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.errors import DataError
        from dovetail.kit import KitOptions, needed_libraries, needed_packages, write_kit
        from dovetail.report import Facts, Page
        from dovetail.report.figures import bytes_text

        bundle = dovetail.load_bundle(self.bundle)
        packages = needed_packages(bundle) if self.runner is None else needed_libraries(bundle)
        feeds = [sample.inputs for sample in self.open(self.data, dovetail.specs_of(bundle.inputs), limit=self.limit)]
        if not feeds:
            raise DataError(f"{self.data}: the data set is empty.", hint="Give at least one sample.")
        write_kit(bundle, feeds, self.output, KitOptions(runs=self.runs, layers=self.layers, runner=self.runner))
        size = self.output.stat().st_size
        name = self.output.name.removesuffix(".tar")
        facts = (
            ("file", f"{self.output} ({bytes_text(size)}, {len(feeds)} samples)"),
            ("on the board", f"tar xf {self.output.name} && {name}/run.sh"),
            ("it needs there", ("" if self.runner else "Python 3.11 or newer with ") + ", ".join(packages)),
            ("then here", f"scp -r BOARD:{name}/result . && dovetail profile ... --on result"),
        )
        document = {
            "bundle": str(self.bundle),
            "output": str(self.output),
            "size_bytes": size,
            "samples": len(feeds),
            "packages": list(packages),
        }
        return Answer(document, Page(f"Kit of {self.bundle}", (Facts("", facts),)))
