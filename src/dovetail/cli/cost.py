"""dovetail cost: what a plan takes in time and memory, before there is a board."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.boards import BoardVerb
from dovetail.cli.options import HOST, HOST_PLACE, ModelVerb, precisions_of, whole_plan
from dovetail.cli.pricing import PriceVerb
from dovetail.cli.render import Screen
from dovetail.cli.texts import split_commas
from dovetail.cli.verb import Answer
from dovetail.errors import PlanError

if TYPE_CHECKING:
    from dovetail.backend.target import Target
    from dovetail.cost import CostModel, ModelledPartition, UnitCost
    from dovetail.ir import Graph
    from dovetail.plan import Placement, Plan, Unit
    from dovetail.plan.units import Units

_COMPARED = ("i8pc", "i16")
_DEFAULT = "vsi:v853"


@dataclass(frozen=True, kw_only=True)
class Cost(PriceVerb, BoardVerb, ModelVerb):
    """Say what every unit takes on a target at each precision, or what a whole plan takes.

    Every figure says where it comes from: a table of measurements (--costs), a vendor's performance model, or a
    roofline from the facts of the target.
    """

    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="TARGET",
            help="Target to price, beside the CPU, where there is no plan; vsi:v853 if not given.",
            show_default=False,
        ),
    ] = None
    precision: Annotated[
        list[str],
        typer.Option("--precision", metavar="NAME", help="Precisions of the target to compare; i8pc,i16 if not given."),
    ] = field(default_factory=list)
    plan: Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="Price this plan (dovetail plan).")] = None
    place: Annotated[
        str | None,
        typer.Option("--place", metavar="TARGET@PRECISION", help="Price everything here; what is refused runs on cpu."),
    ] = None

    def run(self, screen: Screen) -> Answer:
        from dovetail.ir.open_shapes import check_fixed
        from dovetail.report import Page, modelled_blocks, modelled_document, plan_cost_document, plan_cost_page

        if self.plan is not None and self.place is not None:
            raise PlanError("give either --plan or --place.", hint="--place makes a plan of its own.")
        if self.target is not None and (self.plan is not None or self.place is not None):
            raise PlanError(
                "a plan says its targets itself: --target has no say.",
                hint="Leave it out; --host names the CPU beside the NPU.",
            )
        graph, plan = self._planned()
        check_fixed(graph, "nothing has a price")
        if plan is None:
            return self._choices(graph, screen)
        with screen.progress("asking the vendor's model" if self.vendor else "pricing"):
            parts = self.modelled(graph, plan)
        cost = self._model(graph, plan, parts).plan_cost(plan)
        document = {"graph": graph.digest, "plan": plan.digest, **plan_cost_document(cost)}
        if self.vendor:
            document["modelled"] = modelled_document(parts)
        page = plan_cost_page(cost, f"Cost of '{self.model.name}'")
        return Answer(document, Page(page.title, (*page.blocks, *modelled_blocks(parts))))

    def _planned(self) -> tuple[Graph, Plan | None]:
        import dovetail

        if self.plan is not None:
            graph, plan = self.planned(self.plan)
            plan.check(graph)
            return graph, plan
        graph = self.graph()
        return graph, None if self.place is None else whole_plan(graph, dovetail.parse_placement(self.place))

    def _model(self, graph: Graph, plan: Plan, parts: Sequence[ModelledPartition]) -> CostModel:
        from dovetail.cost import units_of_plan
        from dovetail.plan.resolve import placeable_units

        targets = _targets(plan.targets)
        units = units_of_plan(placeable_units(graph, plan.default, targets), plan)
        return self._priced(graph, units, targets, parts)

    def _priced(
        self, graph: Graph, units: Units, targets: Mapping[str, Target], parts: Sequence[ModelledPartition]
    ) -> CostModel:
        from dovetail.cost import make_cost_model, model_tables

        tables = (*self.tables(), *model_tables(parts))
        return make_cost_model(graph, units, list(targets.values()), tables, self.host_facts())

    def _choices(self, graph: Graph, screen: Screen) -> Answer:
        import dovetail
        from dovetail.plan import Placement, find_units
        from dovetail.report import choices_page, modelled_document, unit_document

        targets = _targets(split_commas([self.target or _DEFAULT]))
        wanted = precisions_of(self.precision or _COMPARED)
        places = [
            Placement(name, precision)
            for name, target in targets.items()
            for precision in wanted
            if name != HOST and precision in target.precisions
        ]
        host = dovetail.parse_placement(HOST_PLACE)
        parts = self.modelled_places(graph, places, screen)
        units = find_units(graph)
        model = self._priced(graph, units, targets, parts)
        rows = [[_unit_cost(model, unit, place, targets) for place in (*places, host)] for unit in units.items]
        kept = [index for index in range(len(places) + 1) if any(row[index] is not None for row in rows)]
        rows = [[row[index] for index in kept] for row in rows]
        document: dict[str, object] = {
            "graph": graph.digest,
            "units": [unit_document(item) for row in rows for item in row if item is not None],
        }
        if self.vendor:
            document["modelled"] = modelled_document(parts)
        return Answer(document, choices_page(rows, f"Cost of the units of '{self.model.name}'"))


def _targets(names: Iterable[str]) -> Mapping[str, Target]:
    """Return targets by name, the host last where it is not among them."""
    import dovetail

    return {name: dovetail.find_target(name) for name in dict.fromkeys((*names, HOST))}


def _unit_cost(model: CostModel, unit: Unit, place: Placement, targets: Mapping[str, Target]) -> UnitCost | None:
    from dovetail.plan.resolve import unit_refusal

    refused = unit_refusal(model.graph, unit, place, targets)
    return None if refused is not None else model.unit_cost(unit, place)
