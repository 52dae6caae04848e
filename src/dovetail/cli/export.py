"""dovetail export: a plan as the file that another toolchain reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.format_options import FormatVerb, ReplaceOption
from dovetail.cli.options import read_ranges
from dovetail.cli.projects import check_project_folder, project_style, write_project
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.errors import InexpressiblePlan
from dovetail.files import check_ours, read_file, write_file

if TYPE_CHECKING:
    from dovetail.backend.project import ProjectStyle
    from dovetail.formats import WriteRequest, Written
    from dovetail.ir import Graph
    from dovetail.plan import Plan
    from dovetail.plan.quantized import QuantizedGraph


@dataclass(frozen=True, kw_only=True)
class Export(FormatVerb):
    """Write a plan as the file that another toolchain reads, or a placed model as source code for a board.

    A plan that the format cannot say is an error that names the nodes; with --nearest the nearest plan that it can
    say is written instead: nodes get at least the planned precision, or the most that the format has. Further files go
    beside the output, with their role in the name. ovxlib-project and timvx-project are folders: a CMake project with
    the network, its weights and a program that runs it, for each part on a VeriSilicon NPU.
    """

    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan (dovetail plan).", show_default=False)]
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the file (of a project: the folder) goes.")
    ]
    ranges: Annotated[
        Path | None, typer.Option("--ranges", metavar="FILE", help="Ranges, for formats that hold scales.")
    ] = None
    previous: Annotated[
        Path | None, typer.Option("--previous", metavar="FILE", help="Earlier file whose other contents are kept.")
    ] = None
    nearest: Annotated[bool, typer.Option("--nearest", help="Take the nearest plan that the format can say.")] = False
    replace: ReplaceOption = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats import find_format
        from dovetail.plan.plan import plan_from_json
        from dovetail.report import Facts, Page

        style = project_style(self.format)
        if style is not None:
            return self._project(style, screen)
        if not self.replace:
            check_ours(self.output)
        form = find_format(self.format)
        graph, plan = self.planned(self.plan)
        moved: tuple[str, ...] = ()
        try:
            written = form.write(self._request(graph, plan))
        except InexpressiblePlan as error:
            if not self.nearest:
                raise
            nearest = plan_from_json(error.nearest)
            moved = tuple(
                node.name for node in graph.nodes if nearest.placement(node.name) != plan.placement(node.name)
            )
            plan = nearest
            written = form.write(self._request(graph, plan))
        files = self._save(written)
        document = {
            "format": form.name,
            "files": [str(path) for path in files],
            "graph": graph.digest,
            "plan": plan.digest,
            "moved": list(moved),
            "notes": list(written.notes),
        }
        facts = [("format", f"{form.name} ({form.title})"), *(("file", str(path)) for path in files)]
        if moved:
            facts.append(("moved", f"{len(moved)} nodes: {', '.join(moved[:8])}{' ...' if len(moved) > 8 else ''}"))
        facts += [("note", note) for note in written.notes]
        return Answer(document, Page(f"Plan of '{graph.name}' as {form.name}", (Facts("", tuple(facts)),)))

    def _project(self, style: ProjectStyle, screen: Screen) -> Answer:
        check_project_folder(self.output, replace=self.replace)
        quantized = self._quantized()
        with screen.progress("compiling"):
            return write_project(quantized, style, self.output, replace=self.replace)

    def _quantized(self) -> QuantizedGraph:
        import dovetail

        graph, plan = self.planned(self.plan)
        return dovetail.quantize(graph, plan, read_ranges(self.ranges, graph))

    def _request(self, graph: Graph, plan: Plan) -> WriteRequest:
        import dovetail
        from dovetail.formats import WriteRequest

        quantized = None
        if self.ranges is not None:
            quantized = dovetail.quantize(graph, plan, read_ranges(self.ranges, graph))
        previous = None if self.previous is None else read_file(self.previous)
        return WriteRequest(plan, graph, self.listing_bytes(), previous, quantized, self.version, str(self.output))

    def _save(self, written: Written) -> list[Path]:
        files = [(self.output, written.content)]
        for role, content in written.beside.items():
            files.append((self.output.with_name(f"{self.output.stem}.{role}.txt"), content))
        for path, content in files:
            write_file(path, content, replace=self.replace)
        return [path for path, _ in files]
