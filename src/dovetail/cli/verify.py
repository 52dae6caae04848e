"""dovetail verify: our exact simulation beside another backend, in steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dovetail.cli.beside import BesideVerb
from dovetail.cli.on import OnVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Verify(OnVerb, BesideVerb):
    """Count, in steps of the last bit, where another backend gives something else than our exact simulation.

    With a plan and ranges the model is quantised and cut as it would be compiled; a model that came quantised runs
    as it is on --target. Outputs are those of the whole model as it is deployed, each side on its own values;
    operators are judged on equal inputs, by tapped tensors where those leave the outputs as they are, else by compiling
    parts of the model. With --on the other backend runs on a board what it compiled here. The exit code is 1 when an
    output differs.
    """

    limit: Annotated[int, typer.Option("--samples", metavar="N", help="How many samples.")] = 8
    operators: Annotated[
        int, typer.Option("--operators", metavar="N", help="On how many of them operators are judged one by one.")
    ] = 1
    cuts: Annotated[
        int, typer.Option("--cuts", metavar="N", help="How many parts are compiled at most where taps tell nothing.")
    ] = 16

    def run(self, screen: Screen) -> Answer:
        from dovetail.compare import VerifyRequest, verify
        from dovetail.report import verification_document, verification_page

        if self.limit < 1 or self.operators < 0 or self.cuts < 0:
            raise DataError("--samples, --operators and --cuts are counts.", hint="Give at least one sample.")
        graph, parts = self.parts(screen)
        samples = self.samples(graph)
        with self.place() as place, screen.progress("verifying", len(samples)) as bar:
            where = None if self.on is None else place
            request = VerifyRequest(self.against, self.operators, self.cuts, bar.advance, where)
            found = verify(parts, graph.outputs, samples, request)
        document = {"graph": graph.digest, "on": self.on, **verification_document(found)}
        code = ExitCode.DONE if found.equal else ExitCode.NO
        return Answer(document, verification_page(found, f"'{self.model.name}' beside {self._other()}"), code)

    def _other(self) -> str:
        return self.against if self.on is None else f"{self.against} on {self.on}"
