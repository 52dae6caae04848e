"""dovetail compile: a bundle that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.boards import BoardVerb
from dovetail.cli.drawing import write_drawing
from dovetail.cli.options import DrawingOption, ModelVerb, PlanOption, read_ranges
from dovetail.cli.ranges import is_quantizing, ranges_file
from dovetail.cli.reducing import BudgetOption, read_budget, reduce_command, searching, user_memory
from dovetail.cli.render import Screen
from dovetail.cli.texts import named_values, one_of, some_seconds, split_commas
from dovetail.cli.verb import Answer
from dovetail.errors import CompileError, DovetailError

if TYPE_CHECKING:
    from dovetail.compile import CompileRequest, Move, Repaired, RepairRequest
    from dovetail.report.page import Table


@dataclass(frozen=True, kw_only=True)
class Compile(BoardVerb, ModelVerb):
    """Quantise, cut into partitions, compile, and write the bundle.

    Where a compiler crashes or hangs, the smallest part that it does so on is found within --budget, named, and
    remembered (dovetail sdk failures): later plans avoid it. With --fallback, units that a compiler fails on (it
    refuses, crashes or hangs after its target said yes) go there; the answer says which, and the plan in the bundle
    says why. With --vendor the vendor's performance model tells what each operator of the NPU will take.
    """

    plan: PlanOption
    ranges: Annotated[
        Path | None,
        typer.Option(
            "--ranges",
            metavar="FILE",
            help="Ranges (dovetail calibrate); ranges.json beside the plan. A plan in float needs none.",
            show_default=False,
        ),
    ] = None
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the bundle.")]
    fidelity: Annotated[
        str,
        typer.Option("--fidelity", metavar="NAME", help="How closely simulators follow the hardware: exact or fast."),
    ] = "exact"
    backend: Annotated[
        list[str],
        typer.Option("--backend", metavar="TARGET=NAME", help="Backend for a target where several serve it."),
    ] = field(default_factory=list)
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="LIST", help='Options by target, such as "openvino:CPU(threads=2)".'),
    ] = None
    fallback: Annotated[
        list[str],
        typer.Option("--fallback", metavar="TARGET@PRECISION", help="Where units go that a compiler fails on."),
    ] = field(default_factory=list)
    budget: BudgetOption = "100/600"
    limit_s: Annotated[
        float, typer.Option("--compile-limit", metavar="SECONDS", help="Time for the compilation of one partition.")
    ] = 600.0
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Cut more finely where two devices can then work at the same time.")
    ] = False
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="FOLDER", help="Keep compiled partitions here, by content.")
    ] = None
    dot: DrawingOption = None

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.compile import RepairRequest
        from dovetail.cost import model_tables, predict_partitions
        from dovetail.report import (
            Facts,
            Page,
            modelled_blocks,
            modelled_document,
            partition_rows,
            partition_table,
            plain_data,
        )
        from dovetail.report.dot import draw_partitions

        graph, plan = self.planned(self.plan)
        file = ranges_file(self.ranges, self.plan, graph, screen) if is_quantizing(plan) else self.ranges
        ranges = read_ranges(file, graph)
        rule = tuple(dovetail.parse_placement(text) for text in split_commas(self.fallback))
        places = (plan.default, *rule, *(override.placement for override in plan.overrides.values()))
        self._check_targets({place.target for place in places})
        with screen.progress("compiling") as bar:
            request = RepairRequest(
                graph, plan, ranges, rule, self._request(), self.overlap, read_budget(self.budget), searching(bar)
            )
            repaired = self._compiled(request, file)
            partitioned, bundle, moves, plan = repaired.partitioned, repaired.bundle, repaired.moves, repaired.plan
            parts = self.modelled(graph, plan, ranges)
            bundle = predict_partitions(bundle, graph, model_tables(parts))
            dovetail.save_bundle(bundle, self.output)
        if self.dot is not None:
            write_drawing(self.dot, draw_partitions(partitioned))
        rows = partition_rows(partitioned)
        backends = [part.backend for part in bundle.partitions]
        document: dict[str, object] = {
            "output": str(self.output),
            "graph": graph.digest,
            "plan": plan.digest,
            "partitions": plain_data(rows),
            "backends": backends,
            "moves": plain_data(moves),
            "reproduce": self._command(moves[0].before.target, file) if moves else None,
        }
        facts = (
            ("folder", str(self.output)),
            ("plan", plan.digest),
            ("backends", ", ".join(dict.fromkeys(backends))),
        )
        if self.vendor:
            document["modelled"] = modelled_document(parts)
        blocks = (
            Facts("", facts),
            *_moves(moves, document["reproduce"]),
            partition_table(rows),
            *modelled_blocks(parts),
        )
        return Answer(document, Page(f"Bundle of '{self.model.name}'", blocks))

    def _compiled(self, request: RepairRequest, ranges: Path | None) -> Repaired:
        """Return the compiled model; an error about nodes says by which command they can be looked at alone."""
        from dovetail.compile import compile_repaired

        try:
            return compile_repaired(request)
        except CompileError as error:
            if not error.nodes:
                raise
            command = self._command(request.plan.placement(error.nodes[0]).target, ranges)
            raise CompileError(
                error.message,
                partition=error.partition,
                failure=error.failure,
                hint=f"{error.hint} '{command}' writes a case for a report.",
                option=error.option,
            ).naming(error.nodes) from error

    def _command(self, target: str, ranges: Path | None) -> str:
        from dovetail.compile import choose_backend

        return reduce_command(self, choose_backend(target, self._backends()).name, self.plan, ranges, None)

    def _request(self) -> CompileRequest:
        from dovetail.backend.containment import WorkerLimits
        from dovetail.backend.protocols import CompileOptions, Fidelity
        from dovetail.compile import BlobCache, CompileRequest
        from dovetail.plan.devices import parse_devices

        fidelity = Fidelity(one_of("--fidelity", self.fidelity, [item.value for item in Fidelity]))
        options = CompileOptions(fidelity=fidelity)
        choices = parse_devices(self.device, options) if self.device is not None else ()
        return CompileRequest(
            options,
            self._backends(),
            {choice.target: choice.options for choice in choices},
            limits=WorkerLimits(compile_s=some_seconds("--compile-limit", self.limit_s)),
            cache=None if self.cache is None else BlobCache(self.cache),
            memory=user_memory(),
        )

    def _check_targets(self, known: set[str]) -> None:
        """Raise DovetailError when a backend is chosen for a target that the plan does not have."""
        for target in self._backends():
            if target not in known:
                raise DovetailError(
                    f"--backend {target}=...: the plan places nothing on '{target}'.",
                    hint=f"It has {', '.join(sorted(known))}.",
                )

    def _backends(self) -> Mapping[str, str]:
        return named_values("--backend", self.backend, "vsi:v853=npusim")


def _moves(moves: tuple[Move, ...], command: object) -> tuple[Table, ...]:
    from dovetail.report.page import Table, flexible, left, wrapped

    if not moves:
        return ()
    rows = tuple((move.nodes[0], str(move.before), str(move.after), move.reason) for move in moves)
    columns = (flexible("unit"), left("from"), left("to"), wrapped("what its compiler did"))
    return (
        Table("Moved, because compilers failed on them", columns, rows, f"'{command}' writes a case for a report."),
    )
