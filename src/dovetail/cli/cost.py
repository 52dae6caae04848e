"""dovetail cost: what a plan takes in time and memory, before there is a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.boards import BoardVerb
from dovetail.cli.options import ModelVerb, one_of, split_commas
from dovetail.cli.pricing import PriceVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.errors import PlanError

if TYPE_CHECKING:
    from dovetail.backend.target import Target
    from dovetail.cost import CostModel, ModelledPartition, UnitCost
    from dovetail.ir import Graph
    from dovetail.plan import Placement, Plan, Unit

_COMPARED = ("i8pc", "i16")


@dataclass(frozen=True, kw_only=True)
class Cost(PriceVerb, BoardVerb, ModelVerb):
    """Say what every unit takes on a target at each precision, or what a whole plan takes.

    Every figure says where it comes from: a table of measurements (--costs), a vendor's performance model, or a
    roofline from the facts of the target.
    """

    target: Annotated[
        str,
        typer.Option("--target", metavar="TARGET", help="Target to price, beside the CPU, where there is no plan."),
    ] = "vsi:v853"
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
        from dovetail.report import Page, modelled_blocks, modelled_document, plan_cost_document, plan_cost_page

        if self.plan is not None and self.place is not None:
            raise PlanError("give either --plan or --place.", hint="--place makes a plan of its own.")
        graph = self.graph()
        plan = self._plan(graph)
        if plan is None:
            return self._choices(graph, screen)
        with screen.progress("asking the vendor's model" if self.vendor else "pricing"):
            parts = self.modelled(graph, plan)
        cost = self._model(graph, plan, parts).plan_cost(plan)
        document = {"graph": graph.digest, "plan": plan.digest, **plan_cost_document(cost)}
        if self.vendor:
            document["modelled"] = modelled_document(parts)
        page = plan_cost_page(cost, f"Cost of '{graph.name}'")
        return Answer(document, Page(page.title, (*page.blocks, *modelled_blocks(parts))))

    def _plan(self, graph: Graph) -> Plan | None:
        import dovetail

        if self.plan is not None:
            plan = dovetail.load_plan(self.plan)
            plan.check(graph)
            return plan
        if self.place is None:
            return None
        place, cpu = dovetail.parse_placement(self.place), dovetail.parse_placement("cpu@fp32")
        targets = {name: dovetail.find_target(name) for name in (place.target, "cpu")}
        return dovetail.make_plan(graph, dovetail.Recipe(place, (cpu,)), targets)

    def _model(self, graph: Graph, plan: Plan, parts: Sequence[ModelledPartition]) -> CostModel:
        import dovetail
        from dovetail.cost import make_cost_model, model_tables, units_of_plan
        from dovetail.plan.resolve import placeable_units

        names = tuple(dict.fromkeys((*plan.targets, "cpu")))
        targets = {name: dovetail.find_target(name) for name in names}
        units = units_of_plan(placeable_units(graph, plan.default, targets), plan)
        tables = (*self.tables(), *model_tables(parts))
        return make_cost_model(graph, units, list(targets.values()), tables, self.host_facts())

    def _choices(self, graph: Graph, screen: Screen) -> Answer:
        import dovetail
        from dovetail.cost import make_cost_model, model_tables
        from dovetail.ir.precision import Precision
        from dovetail.plan import Placement, find_units
        from dovetail.report import choices_page, modelled_document, unit_document

        names = dict.fromkeys((*split_commas([self.target]), "cpu"))
        targets = {name: dovetail.find_target(name) for name in names}
        units = find_units(graph)
        known = [item.value for item in Precision]
        wanted = [one_of("--precision", name, known) for name in split_commas(self.precision) or _COMPARED]
        places = [
            Placement(name, Precision(text))
            for name, target in targets.items()
            for text in (("fp32",) if name == "cpu" else wanted)
            if Precision(text) in target.precisions
        ]
        parts = self._modelled_places(graph, targets, places, screen)
        tables = (*self.tables(), *model_tables(parts))
        model = make_cost_model(graph, units, list(targets.values()), tables, self.host_facts())
        rows = [[self._priced(model, unit, place) for place in places] for unit in units.items]
        kept = [index for index in range(len(places)) if any(row[index] is not None for row in rows)]
        rows = [[row[index] for index in kept] for row in rows]
        document: dict[str, object] = {
            "graph": graph.digest,
            "units": [unit_document(item) for row in rows for item in row if item is not None],
        }
        if self.vendor:
            document["modelled"] = modelled_document(parts)
        return Answer(document, choices_page(rows, f"Cost of the units of '{graph.name}'"))

    def _modelled_places(
        self, graph: Graph, targets: Mapping[str, Target], places: Sequence[Placement], screen: Screen
    ) -> list[ModelledPartition]:
        """Return what the vendor's model says of the whole graph at each placement; the CPU takes what is refused."""
        import dovetail
        from dovetail.cost import ModelRequest, model_plan

        boards = self.boards([name for name in targets if name != "cpu"])
        wanted = [place for place in places if place.target != "cpu"] if self.vendor else []
        found: list[ModelledPartition] = []
        cpu = dovetail.parse_placement("cpu@fp32")
        with screen.progress("asking the vendor's model", len(wanted) or None) as bar:
            for done, place in enumerate(wanted):
                bar.advance(done)
                bar.rename(f"modelling {place}")
                chosen = {name: targets[name] for name in (place.target, "cpu")}
                plan = dovetail.make_plan(graph, dovetail.Recipe(place, (cpu,)), chosen)
                if place.target in plan.targets:
                    found += model_plan(graph, plan, ModelRequest(boards))
        return found

    def _priced(self, model: CostModel, unit: Unit, place: Placement) -> UnitCost | None:
        import dovetail
        from dovetail.plan.resolve import unit_refusal

        refused = unit_refusal(model.graph, unit, place, {place.target: dovetail.find_target(place.target)})
        return None if refused is not None else model.unit_cost(unit, place)
