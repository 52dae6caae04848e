"""dovetail bundle example: programs of one's own that run a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb

_SIGN = "Runs the bundle '"


@dataclass(frozen=True, kw_only=True)
class BundleExample(Verb):
    """Write programs that run a bundle: 30 lines of C++, and pipelines of GStreamer and NNStreamer.

    `infer.cpp` links with the sources of `dovetail-run` and needs no Python on the board; `filter.py` is a filter of
    NNStreamer on the board's runtime, and `pipeline.sh` has the lines for gst-launch-1.0.
    """

    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle (dovetail compile).", show_default=False)]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A folder for the files.")]
    pixels: Annotated[
        str,
        typer.Option("--pixels", metavar="STEPS", help="What makes inputs of pixels, for NNStreamer: div:255.0."),
    ] = ""

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.files import new_folder
        from dovetail.kit import example_files, runner_sources
        from dovetail.report import Facts, Page

        files = example_files(dovetail.load_bundle(self.bundle), self.pixels)
        with new_folder(self.output, _is_ours) as draft:
            for name, text in files.items():
                (draft / name).write_text(text, encoding="utf-8")
            (draft / "pipeline.sh").chmod(0o755)
        sources = runner_sources()
        build = (
            "its sources are not installed"
            if sources is None
            else (f"cmake -S {self.output} -B build -DDOVETAIL_RUN={sources} && cmake --build build")
        )
        facts = (("files", ", ".join(sorted(files))), ("folder", str(self.output)), ("build", build))
        document = {"output": str(self.output), "files": sorted(files), "sources": sources and str(sources)}
        return Answer(document, Page(f"Examples for {self.bundle}", (Facts("", facts),)))


def _is_ours(folder: Path) -> bool:
    try:
        return _SIGN in (folder / "infer.cpp").read_text(encoding="utf-8")[:200]
    except (OSError, UnicodeDecodeError):
        return False
