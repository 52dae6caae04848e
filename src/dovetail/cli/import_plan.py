"""dovetail import-plan: the file of another toolchain as a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.format_options import FormatVerb
from dovetail.cli.options import HOST_PLACE
from dovetail.cli.render import Screen
from dovetail.cli.texts import named_values
from dovetail.cli.verb import Answer
from dovetail.files import check_ours, read_file, write_file


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
    ] = HOST_PLACE
    beside: Annotated[
        list[str],
        typer.Option("--beside", metavar="ROLE=FILE", help="Further file, such as mixed=mixed.txt; repeatable."),
    ] = field(default_factory=list)
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the plan goes.")] = Path(
        "plan.json"
    )

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.formats import ReadRequest, find_format
        from dovetail.report import Facts, Page

        check_ours(self.output)
        form = find_format(self.format)
        graph = self.graph()
        beside = named_values("--beside", self.beside, "mixed=mixed.txt")
        request = ReadRequest(
            graph,
            dovetail.parse_placement(self.base),
            dovetail.parse_placement(self.exception),
            self.listing_bytes(),
            {role: read_file(Path(path)) for role, path in beside.items()},
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
        return Answer(document, Page(f"Plan of '{self.model.name}' from {self.file.name}", (Facts("", tuple(facts)),)))
