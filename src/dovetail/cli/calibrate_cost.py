"""dovetail calibrate-cost: what layers take on a board, for searches to reckon with."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.on import OnVerb
from dovetail.cli.options import ModelVerb, RangesOption, read_ranges
from dovetail.cli.render import Screen
from dovetail.cli.texts import named_values
from dovetail.cli.verb import Answer
from dovetail.errors import CostError
from dovetail.files import write_file

if TYPE_CHECKING:
    from dovetail.fit.board_costs import BoardCosts
    from dovetail.ir.precision import Precision
    from dovetail.partition import PartitionedGraph
    from dovetail.report import Page


@dataclass(frozen=True, kw_only=True)
class CalibrateCost(OnVerb, ModelVerb):
    """Time the layers of a model on a board, and write the table of costs that searches read (--costs).

    Layers are compiled and timed one by one, in rows of two and of four, with random inputs. A fit tells what a layer,
    a partition and a byte at its borders take; rows of three and whole partitions, which the fit does not see, say how
    far off it is. Without --on it is this machine that is timed. One table is of one target; repeat --place for
    precisions.
    """

    ranges: RangesOption
    places: Annotated[
        list[str], typer.Option("--place", metavar="PLACE", help="Target and precision, vsi:v853@i8pc; repeatable.")
    ]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The table of costs (JSON).")]
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="Runs of every row that are timed.")] = 20
    backend: Annotated[
        list[str],
        typer.Option("--backend", metavar="TARGET=NAME", help="Backend for a target where several serve it."),
    ] = field(default_factory=list)

    def run(self, screen: Screen) -> Answer:
        from dovetail.fit.board_costs import BoardCostRequest, measure_costs
        from dovetail.runtime import ProfileOptions

        target, models = self._models()
        backends = named_values("--backend", self.backend, "vsi:v853=npusim")
        source = f"measured on {self.on or 'this machine'}, {self.runs} runs a row"
        with self.place() as place, screen.progress("timing") as bar:
            found = measure_costs(
                BoardCostRequest(target, models, place, source, backends, ProfileOptions(runs=self.runs), bar.advance)
            )
        write_file(self.output, found.table.to_json())
        return Answer(_document(found, self.output), _page(found, self.output))

    def _models(self) -> tuple[str, dict[Precision, PartitionedGraph]]:
        import dovetail

        graph = self.graph()
        ranges = read_ranges(self.ranges, graph)
        places = [dovetail.parse_placement(text) for text in self.places]
        targets = dict.fromkeys(place.target for place in places)
        if len(targets) != 1:
            raise CostError(f"a table is of one target, not of {', '.join(targets)}.", hint="Write one for each.")
        (target,) = targets
        models = {}
        for place in places:
            plan = dovetail.make_plan(graph, dovetail.Recipe(place), {target: dovetail.find_target(target)})
            models[place.precision] = dovetail.partition(dovetail.quantize(graph, plan, ranges))
        return target, models


def _figures(errors: Sequence[float]) -> dict[str, object]:
    return {
        "rows": len(errors),
        "median": statistics.median(errors) if errors else None,
        "largest": max(errors, default=None),
    }


def _document(found: BoardCosts, output: Path) -> dict[str, object]:
    return {
        "output": str(output),
        "target": found.target,
        "source": found.source,
        "layers": len(found.layers),
        "overhead_ns": found.overhead_ns,
        "bytes_per_s": found.table.bytes_per_s,
        "fitted": _figures(found.errors(held_out=False)),
        "held_out": _figures(found.errors(held_out=True)),
    }


def _page(found: BoardCosts, output: Path) -> Page:
    from dovetail.report import Facts, Page
    from dovetail.report.figures import time_text

    per_s = found.table.bytes_per_s
    facts = (
        ("file", f"{output}: {len(found.layers)} layers of {found.target}"),
        ("a partition", f"{time_text(found.overhead_ns)} besides its layers"),
        ("its borders", "no time that could be told" if per_s is None else f"{per_s / 1e6:.1f} MB/s"),
        ("error of the fit", _said(found.errors(held_out=False), "fitted")),
        ("on other rows", _said(found.errors(held_out=True), "held out")),
        ("for a search", f"dovetail tune ... --costs {output}"),
    )
    return Page(f"What {found.target} takes: {found.source}", (Facts("", facts),))


def _said(errors: Sequence[float], what: str) -> str:
    if not errors:
        return f"no row was {what}"
    return f"{statistics.median(errors):.1%} in the middle, {max(errors):.1%} at most ({len(errors)} rows {what})"
