"""Write the folder of a project for dovetail export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli.verb import Answer
from dovetail.errors import DovetailError
from dovetail.files import new_folder, read_file

if TYPE_CHECKING:
    from dovetail.backend.project import ProjectStyle
    from dovetail.plan.quantized import QuantizedGraph


def project_style(name: str) -> ProjectStyle | None:
    """Return the style of a project by its name, or None for another format; raise DovetailError for a slip."""
    import difflib

    from dovetail.backend.project import ProjectStyle
    from dovetail.formats import format_names

    names = [style.value for style in ProjectStyle]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    if name not in names and name not in format_names() and near:
        raise DovetailError(f"format '{name}' is unknown.", hint=f"Did you mean '{near[0]}'?")
    return next((style for style in ProjectStyle if style.value == name), None)


def write_project(quantized: QuantizedGraph, style: ProjectStyle, folder: Path, *, replace: bool) -> Answer:
    """Write the folder; raise DovetailError when it holds something already that is not to be replaced."""
    import dovetail
    from dovetail.compile import make_projects
    from dovetail.report.page import Facts, Page, Table, flexible, left

    check_project_folder(folder, replace=replace)
    made = make_projects(dovetail.partition(quantized), style)
    with new_folder(folder, lambda place: replace and _is_ours(place)) as draft:
        for path, content in made.files.items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_bytes(content)
    facts = (("format", f"{style.value} ({style.title})"), ("folder", str(folder)), ("read", str(folder / "README.md")))
    document = {
        "format": style.value,
        "folder": str(folder),
        "files": sorted(made.files),
        "graph": quantized.graph.digest,
        "plan": quantized.plan.digest,
        "parts": [
            {"path": part.path, "target": part.target, "inputs": list(part.inputs), "outputs": list(part.outputs)}
            for part in made.parts
        ],
    }
    blocks: list[Facts | Table] = [Facts("", facts)]
    if not made.is_whole:
        rows = tuple((part.path, part.target, _shown(part.inputs), _shown(part.outputs)) for part in made.parts)
        columns = (left("part"), left("target"), flexible("reads"), flexible("writes"))
        blocks.append(Table("Runs in this order, the CPU between", columns, rows))
    return Answer(document, Page(f"Project of '{quantized.graph.name}'", tuple(blocks)))


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def check_project_folder(folder: Path, *, replace: bool) -> None:
    """Raise DovetailError, before anything is compiled, where the folder is taken."""
    if not folder.is_dir() or not any(folder.iterdir()) or (replace and _is_ours(folder)):
        return
    if _is_ours(folder):
        raise DovetailError(
            f"{folder}: holds a project already, perhaps with changes of yours.",
            hint="Choose another folder, or give --replace to write it anew.",
        )
    raise DovetailError(
        f"{folder}: holds files that dovetail did not make: it stays as it is.", hint="Choose another folder."
    )


def _is_ours(folder: Path) -> bool:
    from dovetail.compile.project import RECORD, is_project_folder

    record = folder / RECORD
    return record.is_file() and is_project_folder(read_file(record))
