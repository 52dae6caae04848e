"""dovetail export: a plan as the file that another toolchain reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.explorer import EXPLORER, write_explorer
from dovetail.cli.fitting import FitProgress
from dovetail.cli.format_options import FormatVerb, ReplaceOption
from dovetail.cli.obeying import SeenExport, moved_data, moved_facts
from dovetail.cli.options import DecisionsOption, LabelsOption, SamplesVerb, read_ranges
from dovetail.cli.projects import check_project_folder, project_style, write_project
from dovetail.cli.ranges import ranges_file
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.errors import DovetailError, FormatError, InexpressiblePlan
from dovetail.files import check_ours, read_file, write_file

if TYPE_CHECKING:
    from dovetail.backend.project import ProjectStyle
    from dovetail.fit import HandedRequest, HandedScore, MovedScore
    from dovetail.formats import Format, WriteRequest, Written
    from dovetail.formats.consumer import Consumer, ConsumerReading, ConsumerRequest
    from dovetail.ir import Graph
    from dovetail.plan import Plan

_SAMPLES = 200
_ACUITY = "acuity-quantize"
_SCALED = ("onnxruntime",)
"""Formats that need no scales, but whose reader does without them something else than the plan: 16 bits by extremes."""


@dataclass(frozen=True, kw_only=True)
class Export(SamplesVerb, FormatVerb):
    """Write a plan as the file that another toolchain reads, or a placed model as source code for a board.

    A plan that the format cannot say is an error that names the nodes; with --nearest the nearest plan that it can
    say is written instead: nodes get at least the planned precision, or the most that the format has; with --data both
    plans are scored in simulation before anything is written. Further files go
    beside the output, with their role in the name. ovxlib-project and timvx-project are folders: a CMake project with
    the network, its weights and a program that runs it, for each part on a VeriSilicon NPU. model-explorer writes the
    graph and node data for Model Explorer.

    Where the program that reads the file is installed, it is run on the file, and what it gives every node is compared
    with the plan: exit code 1, with a table, where they differ. With --data it is calibrated on the first 20 samples,
    and what it scores stands beside what is predicted of the plan.
    """

    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan (dovetail plan).", show_default=False)]
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the file (of a project: the folder) goes.")
    ]
    ranges: Annotated[
        Path | None,
        typer.Option(
            "--ranges",
            metavar="FILE",
            help="Ranges, for formats that hold scales; where they decide what runs, ranges.json beside the plan.",
            show_default=False,
        ),
    ] = None
    previous: Annotated[
        Path | None, typer.Option("--previous", metavar="FILE", help="Earlier file whose other contents are kept.")
    ] = None
    nearest: Annotated[bool, typer.Option("--nearest", help="Take the nearest plan that the format can say.")] = False
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Samples to verify on; noise if not given.", show_default=False),
    ] = None
    labels: LabelsOption = None
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Metric, or file.py:function; top1 with labels, else decisions, else noise.",
            show_default=False,
        ),
    ] = None
    decisions: DecisionsOption = None
    limit: Annotated[int, typer.Option("--samples", metavar="N", help="Score on the first N samples.")] = _SAMPLES
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Run the program that reads the file, where it is installed.")
    ] = True
    with_inputmeta: Annotated[
        bool,
        typer.Option(
            "--with-inputmeta", help="Also write inputmeta (by --preprocess) and postprocess file for Acuity."
        ),
    ] = False
    replace: ReplaceOption = False

    @property
    def planned_by(self) -> Path | None:
        return self.plan

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats import find_format

        style = project_style(self.format)
        if style is not None:
            return self._project(style, screen)
        if not self.replace:
            check_ours(self.output)
        if self.with_inputmeta and (self.format != _ACUITY or self.listing is None):
            why = f"--with-inputmeta is for --format {_ACUITY} and its network"
            raise DovetailError(f"{why}.", hint="Leave it out, or give the network with --listing.")
        if self.format == EXPLORER:
            return write_explorer(*self.planned(self.plan), self.plan, self.output, replace=self.replace)
        form = find_format(self.format)
        graph, planned = self.planned(self.plan)
        ranges = self._ranges(graph, screen) if self.format in _SCALED else self.ranges
        try:
            return replace(self, ranges=ranges)._export(form, graph, planned, screen)
        except FormatError as error:
            # A file that may do without scales goes without, unless they are asked for.
            ranges = self._ranges(graph, screen) if error.code == "RANGES" else None
            if ranges is None:
                raise
            return replace(self, ranges=ranges)._export(form, graph, planned, screen)

    def _ranges(self, graph: Graph, screen: Screen) -> Path | None:
        return ranges_file(self.ranges, self.plan, graph, screen)

    def _export(self, form: Format, graph: Graph, planned: Plan, screen: Screen) -> Answer:
        from dovetail.report import Facts, Page

        plan, written = self._written(form, graph, planned)
        if self.with_inputmeta:
            written = self._with_inputmeta(graph, written)
        moved = [node.name for node in graph.nodes if plan.placement(node.name) != planned.placement(node.name)]
        scored = self._moved_score(graph, planned, plan, screen) if moved and self.data is not None else None
        seen = self._verified(graph, plan, written, screen) if self.verify else "no: as asked"
        files = self._save(written)
        document = {
            "format": form.name,
            "files": [str(path) for path in files],
            "graph": graph.digest,
            "plan": plan.digest,
            "moved": moved,
            "moved_score": None if scored is None else moved_data(scored),
            "notes": list(written.notes),
            "verified": None if isinstance(seen, str) else seen.data(),
        }
        facts = [("format", f"{form.name} ({form.title})"), *(("file", str(path)) for path in files)]
        if moved:
            facts.append(("moved", f"{len(moved)} nodes: {', '.join(moved[:8])}{' ...' if len(moved) > 8 else ''}"))
        if scored is not None:
            facts += moved_facts(scored)
        facts += [("note", note) for note in written.notes]
        title = f"Plan of '{self.model.name}' as {form.name}"
        if isinstance(seen, str):
            facts.append(("verified", seen))
            return Answer(document, Page(title, (Facts("", tuple(facts)),)))
        return seen.answer(document, Page(title, (Facts("", tuple(facts)),)))

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

    def _with_inputmeta(self, graph: Graph, written: Written) -> Written:
        """Return the file with those that pegasus wants beside it."""
        from dovetail.data.preprocess import Channels
        from dovetail.formats.acuity import PixelScaling, inputmeta_of, postprocess_of, read_network

        assert self.listing is not None
        network, steps = read_network(read_file(self.listing), str(self.listing)), self.steps
        pixels = None
        if steps is not None:
            layout = "" if steps.layout is None else steps.layout.value
            pixels = PixelScaling(steps.mean, steps.scale, steps.channels is Channels.BGR, layout)
        beside = {
            "inputmeta.yml": inputmeta_of(network, graph, pixels).encode(),
            "postprocess.yml": postprocess_of(network, graph).encode(),
        }
        return replace(written, beside={**written.beside, **beside})

    def _verified(self, graph: Graph, plan: Plan, written: Written, screen: Screen) -> SeenExport | str:
        """Return what the file's consumer makes of it, or why it is not asked."""
        from dovetail.formats.consumer import ConsumerRequest, OtherVersionError, find_consumer

        consumer = find_consumer(self.format)
        if consumer is None:
            return "no: no program here that reads it"
        model = read_file(self.model) if self.model.suffix == consumer.models else None
        if model is None and consumer.needs_model:
            return f"no: the program that reads it quantises {consumer.models} models, and --model is none"
        asked = ConsumerRequest(graph, plan, written, model, listing=self.listing_bytes())
        with screen.progress("verifying") as bar:
            try:
                if self.data is None:
                    return SeenExport(consumer.read(asked))
                return SeenExport(*self._scored(consumer, asked, self.data, FitProgress(bar)))
            except OtherVersionError as error:
                return f"no: {error.detail}"
            except FormatError as error:
                hint = " ".join(filter(None, (error.hint, "--no-verify writes it.")))
                raise FormatError(error.detail, path=error.path, line=error.line, code=error.code, hint=hint) from error

    def _scored(
        self, consumer: Consumer, asked: ConsumerRequest, data: str, progress: FitProgress
    ) -> tuple[ConsumerReading, HandedScore]:
        from dovetail.fit import read_scored

        return read_scored(consumer, asked, self._handed(asked.graph, data), progress)

    def _moved_score(self, graph: Graph, asked: Plan, nearest: Plan, screen: Screen) -> MovedScore:
        from dovetail.fit import score_moved

        with screen.progress("scoring") as bar:
            return score_moved(graph, asked, nearest, self._handed(graph, str(self.data)), FitProgress(bar))

    def _handed(self, graph: Graph, data: str) -> HandedRequest:
        import dovetail
        from dovetail.fit import HandedRequest
        from dovetail.quantize import is_quantized

        return HandedRequest(
            self.graph() if is_quantized(graph) else self.float_graph(),
            self.open(data, dovetail.specs_of(graph), self.labels, self.limit),
            ranges=None if self.ranges is None else read_ranges(self.ranges, graph),
            metric=self.metric,
            decisions=self.decisions,
        )

    def _project(self, style: ProjectStyle, screen: Screen) -> Answer:
        check_project_folder(self.output, replace=self.replace)
        import dovetail

        graph, plan = self.planned(self.plan)
        quantized = dovetail.quantize(graph, plan, read_ranges(self._ranges(graph, screen), graph))
        with screen.progress("compiling"):
            return write_project(quantized, style, self.output, replace=self.replace)

    def _request(self, graph: Graph, plan: Plan) -> WriteRequest:
        import dovetail
        from dovetail.formats import WriteRequest

        quantized = None
        if self.ranges is not None:
            quantized = dovetail.quantize(graph, plan, read_ranges(self.ranges, graph))
        previous = None if self.previous is None else read_file(self.previous)
        own = read_file(self.model) if self.model.suffix == ".onnx" else None
        where = str(self.output)
        return WriteRequest(plan, graph, self.listing_bytes(), previous, quantized, self.version, where, own)

    def _save(self, written: Written) -> list[Path]:
        files = [(self.output, written.content)]
        for role, content in written.beside.items():
            # A role that is a file of its own kind says how it ends.
            name = f"{self.output.stem}.{role}" if "." in role else f"{self.output.stem}.{role}.txt"
            files.append((self.output.with_name(name), content))
        for path, content in files:
            write_file(path, content, replace=self.replace)
        return [path for path, _ in files]
