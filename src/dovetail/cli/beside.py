"""The options of commands that run a quantised model beside another backend, and what they open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.options import ModelVerb, RangesBesideOption, SamplesVerb, read_ranges
from dovetail.cli.ranges import is_quantizing, ranges_file
from dovetail.errors import DataError, PlanError

if TYPE_CHECKING:
    from dovetail.cli.render import Screen
    from dovetail.ir import AnyArray, Graph
    from dovetail.partition import Partition


@dataclass(frozen=True, kw_only=True)
class QuantizedVerb(SamplesVerb, ModelVerb):
    """The options of commands about a model as it is quantised and cut."""

    plan: Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="Plan (dovetail plan, tune).")] = None
    ranges: RangesBesideOption = None
    target: Annotated[
        str | None, typer.Option("--target", metavar="TARGET", help="Where a quantised model runs whole.")
    ] = None
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Samples; random numbers where it is not given."),
    ] = None
    limit: Annotated[int, typer.Option("--samples", metavar="N", help="How many samples.")] = 2
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random numbers.")] = 0

    @property
    def planned_by(self) -> Path | None:
        return self.plan

    def parts(self, screen: Screen) -> tuple[Graph, Sequence[Partition]]:
        """Return the quantised graph and its partitions; raise PlanError where options do not fit the model."""
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
        if self.target is not None:
            raise PlanError("--plan takes no --target: the plan says where nodes run.", hint="Leave one of them out.")
        graph, plan = self.planned(self.plan)
        plan.check(graph)
        needed = is_quantizing(plan)
        ranges = ranges_file(self.ranges, self.plan, graph, screen) if needed else self.ranges
        if ranges is None and needed:
            what = f"--plan needs --ranges: no ranges.json for '{graph.name}' lies beside {self.plan}"
            raise PlanError(f"{what}.", hint="Take those that tune wrote with the plan, or 'dovetail calibrate'.")
        partitioned = dovetail.partition(dovetail.quantize(graph, plan, read_ranges(ranges, graph)))
        return partitioned.source.graph, partitioned.partitions

    def samples(self, graph: Graph) -> list[Mapping[str, AnyArray]]:
        """Return stored samples, random ones where no data are given."""
        import dovetail
        from dovetail.compare import random_samples

        if self.data is None:
            return random_samples(graph, self.limit, self.seed)
        samples = self.open(self.data, dovetail.specs_of(graph), limit=self.limit)
        found = [sample.inputs for sample in samples]
        if not found:
            raise DataError(f"{self.data}: the data set is empty.", hint="Give at least one sample.")
        return found


@dataclass(frozen=True, kw_only=True)
class BesideVerb(QuantizedVerb):
    """The options of commands that run a quantised model beside another backend."""

    against: Annotated[str, typer.Option("--against", metavar="BACKEND", help="The other backend.")] = "vsi"
