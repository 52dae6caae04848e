"""dovetail verify: our exact simulation beside another backend, in steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.options import ModelVerb, SamplesVerb, read_ranges
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import DataError, PlanError

if TYPE_CHECKING:
    from dovetail.ir import AnyArray, Graph
    from dovetail.partition import Partition


@dataclass(frozen=True, kw_only=True)
class Verify(SamplesVerb, ModelVerb):
    """Count, in steps of the last bit, where another backend gives something else than our exact simulation.

    With a plan and ranges the model is quantised and cut as it would be compiled; a model that came quantised runs
    as it is on --target. Outputs are those of the whole model as it is deployed, each side on its own values;
    operators are judged on equal inputs, by tapped tensors where those leave the outputs as they are, else by compiling
    parts of the model. The exit code is 1 when an output differs.
    """

    against: Annotated[str, typer.Option("--against", metavar="BACKEND", help="The other backend.")] = "vsi"
    plan: Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="Plan (dovetail plan, tune).")] = None
    ranges: Annotated[Path | None, typer.Option("--ranges", metavar="FILE", help="Ranges (dovetail calibrate).")] = None
    target: Annotated[
        str | None, typer.Option("--target", metavar="TARGET", help="Where a quantised model runs whole.")
    ] = None
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Samples; random numbers where it is not given."),
    ] = None
    limit: Annotated[int, typer.Option("--samples", metavar="N", help="How many samples.")] = 8
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random numbers.")] = 0
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
        graph, parts = self._parts()
        samples = self._samples(graph)
        with screen.progress("verifying", len(samples)) as bar:
            request = VerifyRequest(self.against, self.operators, self.cuts, bar.advance)
            found = verify(parts, graph.outputs, samples, request)
        document = {"graph": graph.digest, **verification_document(found)}
        code = ExitCode.DONE if found.equal else ExitCode.NO
        return Answer(document, verification_page(found, f"'{graph.name}' beside {self.against}"), code)

    def _parts(self) -> tuple[Graph, Sequence[Partition]]:
        """Return the quantised graph and its partitions."""
        import dovetail
        from dovetail.partition import Partition
        from dovetail.quantize import is_quantized

        if self.plan is None:
            graph = self.graph()
            if self.target is None:
                raise PlanError("give --plan and --ranges, or --target for a model that is quantised.")
            if not is_quantized(graph):
                raise PlanError(
                    f"'{graph.name}' is not quantised.", hint="Give --plan and --ranges (dovetail plan, calibrate)."
                )
            dovetail.find_target(self.target)
            return graph, (Partition(0, self.target, graph),)
        if self.ranges is None or self.target is not None:
            raise PlanError("--plan needs --ranges, and takes no --target: the plan says where nodes run.")
        graph = self.graph()
        plan = dovetail.load_plan(self.plan)
        plan.check(graph)
        partitioned = dovetail.partition(dovetail.quantize(graph, plan, read_ranges(self.ranges, graph)))
        return partitioned.source.graph, partitioned.partitions

    def _samples(self, graph: Graph) -> list[Mapping[str, AnyArray]]:
        import dovetail
        from dovetail.compare import random_samples

        if self.data is None:
            return random_samples(graph, self.limit, self.seed)
        samples = self.open(self.data, dovetail.specs_of(graph), limit=self.limit)
        found = [sample.inputs for sample in samples]
        if not found:
            raise DataError(f"{self.data}: the data set is empty.", hint="Give at least one sample.")
        return found
