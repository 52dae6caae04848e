"""dovetail compile: a bundle that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.boards import BoardVerb
from dovetail.cli.options import ModelVerb, PlanOption, RangesOption, one_of, read_ranges
from dovetail.cli.render import Screen
from dovetail.cli.snippet import path_text, program
from dovetail.cli.verb import Answer
from dovetail.errors import DovetailError


@dataclass(frozen=True, kw_only=True)
class Compile(BoardVerb, ModelVerb):
    """Quantise, cut into partitions, compile, and write the bundle.

    With --vendor the vendor's performance model tells what each operator of the NPU will take.
    """

    plan: PlanOption
    ranges: RangesOption
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the bundle.")]
    fidelity: Annotated[
        str,
        typer.Option("--fidelity", metavar="NAME", help="How closely simulators follow the hardware: exact or fast."),
    ] = "exact"
    backend: Annotated[
        list[str],
        typer.Option("--backend", metavar="TARGET=NAME", help="Backend for a target where several serve it."),
    ] = field(default_factory=list)

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.report import (
            Facts,
            Page,
            modelled_blocks,
            modelled_document,
            partition_rows,
            partition_table,
            plain_data,
        )

        fidelity = dovetail.Fidelity(one_of("--fidelity", self.fidelity, [item.value for item in dovetail.Fidelity]))
        request = dovetail.CompileRequest(dovetail.CompileOptions(fidelity=fidelity), self._backends())
        graph = self.graph()
        plan, ranges = dovetail.load_plan(self.plan), read_ranges(self.ranges, graph)
        with screen.progress("compiling") as bar:
            partitioned = dovetail.partition(dovetail.quantize(graph, plan, ranges))
            bar.rename(f"compiling {len(partitioned.partitions)} partitions")
            bundle = dovetail.compile_model(partitioned, request)
            dovetail.save_bundle(bundle, self.output)
            parts = self.modelled(graph, plan, ranges)
        rows = partition_rows(partitioned)
        backends = [part.backend for part in bundle.partitions]
        document: dict[str, object] = {
            "output": str(self.output),
            "graph": graph.digest,
            "plan": plan.digest,
            "partitions": plain_data(rows),
            "backends": backends,
        }
        facts = (
            ("folder", str(self.output)),
            ("plan", plan.digest),
            ("backends", ", ".join(dict.fromkeys(backends))),
        )
        if self.vendor:
            document["modelled"] = modelled_document(parts)
        blocks = (Facts("", facts), partition_table(rows), *modelled_blocks(parts))
        return Answer(document, Page(f"Bundle of '{graph.name}'", blocks))

    def _backends(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for text in self.backend:
            target, sign, name = text.partition("=")
            if not (target and sign and name):
                raise DovetailError(
                    f"--backend '{text}': TARGET=NAME is expected.", hint="For example vsi:v853=npusim."
                )
            found[target] = name
        return found

    def python(self) -> str:
        return program(
            self.graph_lines(),
            f"plan = dovetail.load_plan({path_text(self.plan)})",
            f"ranges = dovetail.load_ranges({path_text(self.ranges)})",
            "partitioned = dovetail.partition(dovetail.quantize(graph, plan, ranges))",
            "request = dovetail.CompileRequest(",
            f"    dovetail.CompileOptions(fidelity=dovetail.Fidelity({self.fidelity!r})), {dict(self._backends())!r}",
            ")",
            f"dovetail.save_bundle(dovetail.compile_model(partitioned, request), {path_text(self.output)})",
        )
