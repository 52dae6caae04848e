"""dovetail ort check: who runs what in ONNX Runtime, against the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.files import read_file
from dovetail.cli.options import ModelVerb, PlanOption
from dovetail.cli.render import Screen
from dovetail.cli.snippet import path_text, program
from dovetail.cli.verb import Answer
from dovetail.errors import DovetailError


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
        import dovetail
        from dovetail.formats.onnxruntime.session import SessionRequest, open_session
        from dovetail.report import Facts, Page, Tone

        graph, plan = self.graph(), dovetail.load_plan(self.plan)
        plan.check(graph)
        libraries = {name: Path(path) for name, path in _pairs("--library", self.library).items()}
        request = SessionRequest(
            _pairs("--provider", self.provider),
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

    def python(self) -> str:
        libraries = ", ".join(
            f"{name!r}: {path_text(Path(path))}" for name, path in _pairs("--library", self.library).items()
        )
        arguments: Sequence[str] = (
            f"    providers={_pairs('--provider', self.provider)!r},",
            *([f"    libraries={{{libraries}}},"] if libraries else []),
            *([f"    settings={path_text(self.settings)}.read_text().strip(),"] if self.settings else []),
            *(["    optimised=True,"] if self.optimised else []),
        )
        return program(
            "from dovetail.formats.onnxruntime.session import SessionRequest, open_session",
            "",
            self.graph_lines(),
            f"plan = dovetail.load_plan({path_text(self.plan)})",
            "request = SessionRequest(",
            arguments,
            ")",
            f"session, found = open_session({path_text(self.file)}.read_bytes(), graph, plan, request)",
            "for node, provider in found.providers.items():",
            "    print(node, provider)",
        )


def _pairs(option: str, values: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for text in values:
        name, sign, value = text.partition("=")
        if not (name and sign and value):
            raise DovetailError(f"{option} '{text}': a name, '=' and a value are expected.")
        found[name] = value
    return found
