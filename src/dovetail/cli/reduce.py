"""dovetail reduce: the smallest model on which another backend crashes or differs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.beside import BesideVerb
from dovetail.cli.reducing import BudgetOption, read_budget, searching, user_memory
from dovetail.cli.render import Screen
from dovetail.cli.texts import some_seconds
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DataError

if TYPE_CHECKING:
    from dovetail.compare import Reduced, ReduceRequest
    from dovetail.compare.case import WrittenCase


@dataclass(frozen=True, kw_only=True)
class ReduceVerb(BesideVerb):
    """Write the smallest model that another backend crashes or hangs on, refuses, or computes otherwise than we do.

    Takes what dovetail verify takes. The first partition that fails is cut down within --budget, for as long as the
    rest fails as the whole did. The folder gets the model (ONNX with Q/DQ pairs, and .dvg), one sample and a README
    with versions and the command that shows it again. A crash is remembered (dovetail sdk failures). The exit code is
    1 when nothing fails; after Ctrl-C the smallest so far is written.
    """

    budget: BudgetOption = "100/600"
    limit_s: Annotated[
        float, typer.Option("--compile-limit", metavar="SECONDS", help="Time for the compilation of one part.")
    ] = 600.0
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the case.")]

    def run(self, screen: Screen) -> Answer:
        from dovetail.backend.containment import WorkerLimits
        from dovetail.compare import ReduceRequest, reduce_model, write_case

        if self.limit < 1:
            raise DataError("--samples is a count.", hint="Give at least one sample.")
        budget, limits = read_budget(self.budget), WorkerLimits(compile_s=some_seconds("--compile-limit", self.limit_s))
        graph, parts = self.parts(screen)
        samples = self.samples(graph)
        with screen.progress("looking for a failure") as bar:
            request = ReduceRequest(self.against, budget, limits, self.seed, searching(bar))
            found = reduce_model(parts, samples, request)
            if found is None:
                return self._nothing(graph.name)
            bar.rename("writing the case")
            written = write_case(found, self.output, request, graph.name)
            kept = not found.interrupted and self._remembered(found, request)
        return _answer(found, written, remembered=kept)

    def _remembered(self, found: Reduced, request: ReduceRequest) -> bool:
        """Keep a crash, so that later plans avoid it; tell whether it was kept."""
        from dovetail.compare import remember_reduced

        if self.plan is None or len(found.part.graph.nodes) > 1:
            return remember_reduced(found, request, user_memory())
        return remember_reduced(found, request, user_memory(), *self.planned(self.plan))

    def _nothing(self, name: str) -> Answer:
        from dovetail.report.page import Facts, Page

        page = Page(f"'{name}' beside {self.against}", (Facts("", (("found", "nothing fails and nothing differs"),)),))
        return Answer({"misbehaviour": None, "against": self.against}, page, ExitCode.NO)


def _answer(found: Reduced, written: WrittenCase, *, remembered: bool) -> Answer:
    from dovetail.report.page import Facts, Page

    graph, seen = found.part.graph, found.seen
    document = {
        "misbehaviour": seen.misbehaviour.name.lower(),
        "reason": seen.reason,
        "target": found.part.target,
        "nodes": [{"name": node.name, "op": node.op} for node in graph.nodes],
        "minimal": found.minimal,
        "interrupted": found.interrupted,
        "tries": found.tries,
        "folder": str(written.folder),
        "files": list(written.files),
        "command": written.command or None,
        "remembered": remembered,
    }
    facts = (
        ("on", found.part.target),
        ("nodes", ", ".join(f"{node.name} ({node.op})" for node in graph.nodes)),
        ("what happens", f"{seen.misbehaviour.value} it: {seen.reason}"),
        ("smaller", "no node can be left out" if found.minimal else "not everything was tried"),
        ("parts tried", str(found.tries)),
        ("folder", str(written.folder)),
        ("show it again", written.command or "no command does (see the README)"),
        ("remembered", "yes: later plans avoid it" if remembered else "no"),
    )
    code = ExitCode.INTERRUPTED if found.interrupted else ExitCode.DONE
    return Answer(document, Page("The smallest part that fails", (Facts("", facts),)), code)
