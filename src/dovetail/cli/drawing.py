"""Drawings that commands write."""

from __future__ import annotations

from pathlib import Path

from dovetail.errors import DovetailError
from dovetail.files import write_file


def write_drawing(path: Path, drawing: str) -> None:
    """Write a drawing as .dot, or as .svg through graphviz; raise DovetailError for other names."""
    from dovetail.report.dot import svg_of

    match path.suffix.lower():
        case ".dot":
            write_file(path, drawing)
        case ".svg":
            write_file(path, svg_of(drawing))
        case _:
            raise DovetailError(f"{path}: neither .dot nor .svg.", hint="For example --dot plan.dot.")
