"""dovetail export: a plan as the file that another toolchain reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.format_options import FormatVerb, ReplaceOption
from dovetail.cli.obeying import reading_answer, reading_data
from dovetail.cli.options import SamplesVerb, read_ranges
from dovetail.cli.projects import check_project_folder, project_style, write_project
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.errors import FormatError, InexpressiblePlan
from dovetail.files import check_ours, read_file, write_file

if TYPE_CHECKING:
    from dovetail.backend.project import ProjectStyle
    from dovetail.formats import Format, WriteRequest, Written
    from dovetail.formats.consumer import ConsumerReading
    from dovetail.ir import Graph
    from dovetail.plan import Plan
    from dovetail.plan.quantized import QuantizedGraph

_SAMPLES = 20


@dataclass(frozen=True, kw_only=True)
class Export(SamplesVerb, FormatVerb):
    """Write a plan as the file that another toolchain reads, or a placed model as source code for a board.

    A plan that the format cannot say is an error that names the nodes; with --nearest the nearest plan that it can
    say is written instead: nodes get at least the planned precision, or the most that the format has. Further files go
    beside the output, with their role in the name. ovxlib-project and timvx-project are folders: a CMake project with
    the network, its weights and a program that runs it, for each part on a VeriSilicon NPU.

    Where the program that reads the file is installed, it is run on the file, and what it gives every node is compared
    with the plan: exit code 1, with a table, where they differ. With --data it is calibrated and scored on samples.
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
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Samples to verify on; noise if not given.", show_default=False),
    ] = None
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Run the program that reads the file, where it is installed.")
    ] = True
    replace: ReplaceOption = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats import find_format
        from dovetail.report import Facts, Page

        style = project_style(self.format)
        if style is not None:
            return self._project(style, screen)
        if not self.replace:
            check_ours(self.output)
        form = find_format(self.format)
        graph, planned = self.planned(self.plan)
        plan, written = self._written(form, graph, planned)
        moved = [node.name for node in graph.nodes if plan.placement(node.name) != planned.placement(node.name)]
        reading = self._read(graph, plan, written, screen) if self.verify else None
        files = self._save(written)
        document = {
            "format": form.name,
            "files": [str(path) for path in files],
            "graph": graph.digest,
            "plan": plan.digest,
            "moved": moved,
            "notes": list(written.notes),
            "verified": None if reading is None else reading_data(reading),
        }
        facts = [("format", f"{form.name} ({form.title})"), *(("file", str(path)) for path in files)]
        if moved:
            facts.append(("moved", f"{len(moved)} nodes: {', '.join(moved[:8])}{' ...' if len(moved) > 8 else ''}"))
        facts += [("note", note) for note in written.notes]
        title = f"Plan of '{graph.name}' as {form.name}"
        if reading is None:
            facts.append(("verified", "no: as asked" if not self.verify else "no: no program here that reads it"))
            return Answer(document, Page(title, (Facts("", tuple(facts)),)))
        return reading_answer(document, Page(title, (Facts("", tuple(facts)),)), reading)

    def _written(self, form: Format, graph: Graph, plan: Plan) -> tuple[Plan, Written]:
        """Return the plan that the format says, and the file."""
        from dovetail.plan.plan import plan_from_json

        try:
            return plan, form.write(self._request(graph, plan))
        except InexpressiblePlan as error:
            if not self.nearest:
                raise
            nearest = plan_from_json(error.nearest)
        return nearest, form.write(self._request(graph, nearest))

    def _read(self, graph: Graph, plan: Plan, written: Written, screen: Screen) -> ConsumerReading | None:
        """Return what the file's consumer makes of it; None where it is not here."""
        import dovetail
        from dovetail.formats.consumer import ConsumerRequest, find_consumer

        consumer = find_consumer(self.format)
        if consumer is None:
            return None
        samples = () if self.data is None else self.open(self.data, dovetail.specs_of(graph), limit=_SAMPLES)
        model = read_file(self.model) if self.model.suffix == ".onnx" else None
        with screen.progress("verifying"):
            try:
                return consumer.read(
                    ConsumerRequest(graph, plan, written, model, [sample.inputs for sample in samples])
                )
            except FormatError as error:
                raise FormatError(
                    error.detail, path=error.path, line=error.line, code=error.code, hint="--no-verify writes it."
                ) from error

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
