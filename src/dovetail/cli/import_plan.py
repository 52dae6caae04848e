"""dovetail import-plan: the file of another toolchain as a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.files import check_ours, read_file, write_file
from dovetail.cli.format_options import FormatVerb
from dovetail.cli.render import Screen
from dovetail.cli.snippet import path_text, program
from dovetail.cli.verb import Answer
from dovetail.errors import DovetailError


@dataclass(frozen=True, kw_only=True)
class ImportPlan(FormatVerb):
    """Read the file of another toolchain as a plan.

    What the file leaves open is said by --base (where the nodes go that it does not list) and --exception (where those
    go that it takes away). Names that the model does not have are errors, though the toolchain may ignore them.
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of the toolchain.", show_default=False)]
    base: Annotated[
        str, typer.Option("--base", metavar="TARGET@PRECISION", help="Where nodes are that the file does not list.")
    ] = "vsi:v853@i8pc"
    exception: Annotated[
        str, typer.Option("--exception", metavar="TARGET@PRECISION", help="Where nodes go that the file takes away.")
    ] = "cpu@fp32"
    beside: Annotated[
        list[str],
        typer.Option("--beside", metavar="ROLE=FILE", help="Further file, such as mixed=mixed.txt; repeatable."),
    ] = field(default_factory=list)
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the plan goes.")] = Path(
        "plan.json"
    )

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.report import Facts, Page

        check_ours(self.output)
        form = dovetail.find_format(self.format)
        graph = self.graph()
        request = dovetail.ReadRequest(
            graph,
            dovetail.parse_placement(self.base),
            dovetail.parse_placement(self.exception),
            self.listing_bytes(),
            {role: read_file(Path(path)) for role, path in self._beside().items()},
            self.version,
            str(self.file),
        )
        plan = form.read(read_file(self.file), request)
        write_file(self.output, plan.to_json())
        counts = Counter(str(plan.placement(node.name)) for node in graph.nodes)
        document = {
            "output": str(self.output),
            "format": form.name,
            "graph": graph.digest,
            "digest": plan.digest,
            "placements": dict(counts.most_common()),
        }
        facts = [("file", str(self.output)), *((place, f"{count} nodes") for place, count in counts.most_common())]
        return Answer(document, Page(f"Plan of '{graph.name}' from {self.file.name}", (Facts("", tuple(facts)),)))

    def _beside(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for text in self.beside:
            role, sign, path = text.partition("=")
            if not (role and sign and path):
                raise DovetailError(f"--beside '{text}': ROLE=FILE is expected.", hint="For example mixed=mixed.txt.")
            found[role] = path
        return found

    def python(self) -> str:
        beside = ", ".join(f"{role!r}: {path_text(path)}.read_bytes()" for role, path in self._beside().items())
        return program(
            self.graph_lines(),
            "request = dovetail.ReadRequest(",
            "    graph,",
            f"    dovetail.parse_placement({self.base!r}),",
            f"    dovetail.parse_placement({self.exception!r}),",
            self.listing_lines(),
            [f"    beside={{{beside}}},"] if beside else [],
            f"    path={str(self.file)!r},",
            ")",
            f"plan = dovetail.find_format({self.format!r}).read({path_text(self.file)}.read_bytes(), request)",
            f"plan.save({path_text(self.output)})",
        )
