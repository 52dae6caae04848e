"""dovetail ort check: who runs what in ONNX Runtime, against the plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.options import ModelVerb, PlanOption
from dovetail.cli.render import Screen
from dovetail.cli.texts import named_values
from dovetail.cli.verb import Answer
from dovetail.files import read_file


@dataclass(frozen=True, kw_only=True)
class OrtCheck(ModelVerb):
    """Load a model in ONNX Runtime and compare its own report of who runs what with the plan.

    A node elsewhere than planned is an error, and so is a provider that is missing or fails: ONNX Runtime itself goes
    on with the CPU. Without --optimised every node keeps its name and is judged.
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", help="ONNX file for the runtime.", show_default=False)]
    model: Annotated[Path, typer.Option("--model", metavar="MODEL", help="Model that the plan is for.")]
    plan: PlanOption
    provider: Annotated[
        list[str],
        typer.Option("--provider", metavar="TARGET=NAME", help="Execution provider of a target; repeatable."),
    ] = field(default_factory=list)
    library: Annotated[
        list[str], typer.Option("--library", metavar="NAME=FILE", help="Library of a plug-in provider; repeatable.")
    ] = field(default_factory=list)
    settings: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", help="Layer assignment (export --format onnxruntime-layers)."),
    ] = None
    optimised: Annotated[
        bool, typer.Option("--optimised", help="With graph optimisation: fused nodes are not judged.")
    ] = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.formats.onnxruntime.session import SessionRequest, open_session
        from dovetail.report import Facts, Page, Tone

        graph, plan = self.planned(self.plan)
        plan.check(graph)
        libraries = {
            name: Path(path) for name, path in named_values("--library", self.library, "MyProvider=libmine.so").items()
        }
        request = SessionRequest(
            named_values("--provider", self.provider, "openvino:CPU=OpenVINOExecutionProvider"),
            libraries,
            "" if self.settings is None else read_file(self.settings).decode("utf-8", "replace").strip(),
            self.optimised,
        )
        _, found = open_session(read_file(self.file), graph, plan, request)
        counts = Counter(found.providers.values())
        rows = [(name, f"{count} nodes") for name, count in counts.most_common()]
        if found.unreported:
            rows.append(("fused or optimised away", f"{len(found.unreported)} nodes"))
        document = {
            "file": str(self.file),
            "plan": plan.digest,
            "providers": dict(found.providers),
            "unreported": list(found.unreported),
        }
        verdict = f"PASS: {len(found.providers)} nodes are where the plan has them."
        return Answer(document, Page(str(self.file), (Facts("", tuple(rows)),), verdict, Tone.GOOD))
