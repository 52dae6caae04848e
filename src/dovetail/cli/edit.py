"""dovetail edit: one placement of a plan changed by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.loading import LoadingVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.files import check_ours, write_file


@dataclass(frozen=True, kw_only=True)
class EditVerb(LoadingVerb):
    """Change single placements of a plan; everything else stays as it is.

    A unit moves as a whole: the unit of every node that NODE matches (a glob over names and the names in the file).
    What a target refuses is an error, and nothing is written. The plan has to be compiled again, with the ranges that
    it had.
    """

    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan (.json).", show_default=False)]
    edits: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NODE=PLACE",
            help="Place units: PLACE is TARGET@PRECISION, a precision of the plan's target, or cpu; repeatable.",
            show_default=False,
        ),
    ]
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the new plan goes.")]
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", metavar="MODEL", help="Model; the one that the folder of the plan names.", show_default=False
        ),
    ] = None
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the plan.")] = "edited by hand"

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.cli.options import HOST
        from dovetail.fit.planned import model_beside, open_planned
        from dovetail.plan.edit import edit_plan, parse_edit
        from dovetail.plan.resolve import placeable_units
        from dovetail.report import Facts, Page
        from dovetail.report.changes import change_blocks, changes_document, compare_saved
        from dovetail.report.saved import SavedPlan

        check_ours(self.output)
        plan = dovetail.load_plan(self.plan)
        edits = [parse_edit(text, plan.default, self.reason) for text in self.edits]
        names = (*plan.targets, *(edit.placement.target for edit in edits), HOST)
        targets = {name: dovetail.find_target(name) for name in dict.fromkeys(names)}
        model = open_planned(self.model or model_beside(self.plan), plan, self.announced_options())
        edited = edit_plan(model.graph, plan, edits, targets)
        units = placeable_units(model.graph, plan.default, targets)
        unit_of = {name: unit.name for name, unit in units.of_node.items()}
        changes = compare_saved(SavedPlan(self.plan, plan), SavedPlan(self.output, edited), unit_of)
        write_file(self.output, edited.to_json())
        document = {"output": str(self.output), "digest": edited.digest, **changes_document(changes)}
        moved = sum(len(item.nodes) for item in changes.plan.moved)
        verdict = f"{moved} nodes moved." if moved else "Nothing changed: the plan had them there already."
        files = Facts("Files", (("plan", str(self.output)),))
        return Answer(document, Page(f"Edit of {self.plan}", (*change_blocks(changes), files), verdict))
