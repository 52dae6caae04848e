"""dovetail plan: where every node goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.drawing import write_drawing
from dovetail.cli.loading import open_text
from dovetail.cli.options import HOST_PLACE, DrawingOption, ModelVerb
from dovetail.cli.render import Screen
from dovetail.cli.texts import split_commas
from dovetail.cli.verb import Answer
from dovetail.errors import DeviceNotFound, PlanError
from dovetail.files import check_ours, write_file

if TYPE_CHECKING:
    from dovetail.ir import Graph
    from dovetail.plan import Placement, Plan, Recipe
    from dovetail.report import Page


@dataclass(frozen=True, kw_only=True)
class PlanVerb(ModelVerb):
    """Place every node as a recipe says, all at one placement, or on the first of several devices that takes it.

    What a placement refuses goes to the first --fallback that takes it, or to the next --device, and the plan says why.
    --target places everything on it, in the 8 bits that a search starts from; --place names the precision.
    """

    target: Annotated[
        str | None,
        typer.Option("--target", metavar="TARGET", help="Where everything goes, at the precision that it prefers."),
    ] = None
    recipe: Annotated[Path | None, typer.Option("--recipe", metavar="FILE", help="Recipe (TOML).")] = None
    place: Annotated[
        str | None,
        typer.Option("--place", metavar="TARGET@PRECISION", help="Where everything goes, instead of a recipe."),
    ] = None
    fallback: Annotated[
        list[str],
        typer.Option("--fallback", metavar="TARGET@PRECISION", help="Where refused nodes go; cpu@fp32 if not given."),
    ] = field(default_factory=list)
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="LIST", help='Devices in order of priority, such as "vsi:a311d,openvino:CPU,cpu".'
        ),
    ] = None
    affinity: Annotated[
        list[str],
        typer.Option("--affinity", metavar="GLOB=TARGET", help="Place by hand; also op:OPERATOR=TARGET; repeatable."),
    ] = field(default_factory=list)
    query: Annotated[
        bool,
        typer.Option("--query", help="Ask OpenVINO's devices here what they take (query_model), beside our tables."),
    ] = False
    dot: DrawingOption = None
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the plan goes.")] = Path(
        "plan.json"
    )

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.ir.open_shapes import open_inputs
        from dovetail.report.dot import draw_plan

        check_ours(self.output)
        recipe = self._recipe()
        if recipe.repair not in ("", "none"):
            screen.note("repairs of the recipe are made by 'tune --recipe', not here.")
        graph = self.graph()
        if self.query:
            from dovetail.formats.openvino.query import with_live_refusals

            recipe = with_live_refusals(recipe, graph)
        places = (recipe.default, *recipe.fallback, *(rule.placement for rule in recipe.rules))
        targets = {place.target: dovetail.find_target(place.target) for place in places}
        plan = dovetail.make_plan(graph, recipe, targets)
        write_file(self.output, plan.to_json())
        if self.dot is not None:
            write_drawing(self.dot, draw_plan(graph, plan))
        counts = Counter(str(plan.placement(node.name)) for node in graph.nodes)
        document = {
            "output": str(self.output),
            "graph": graph.digest,
            "digest": plan.digest,
            "default": str(plan.default),
            "open_inputs": sorted(open_inputs(graph)),
            "placements": dict(counts.most_common()),
            "overrides": {
                node: {"place": str(item.placement), "reason": item.reason} for node, item in plan.overrides.items()
            },
        }
        return Answer(document, _page(self.model.name, graph, plan, self.output))

    def _recipe(self) -> Recipe:
        import dovetail
        from dovetail.plan.devices import parse_devices, recipe_of, with_affinities

        ways = {"--target": self.target, "--place": self.place, "--device": self.device, "--recipe": self.recipe}
        given = [option for option, value in ways.items() if value is not None]
        if len(given) != 1:
            what = f"{' and '.join(given)} are several" if given else "nothing says where nodes go"
            raise PlanError(
                f"{what}: give one of --target, --place, --device and --recipe.",
                hint="For example --target vsi:v853, or --place vsi:v853@i8pc ('dovetail devices' lists targets).",
            )
        if self.device is not None:
            if self.fallback:
                raise PlanError("--fallback belongs to --place.", hint="--device is a list: append to it.")
            choices = parse_devices(self.device)
            targets = {choice.target: dovetail.find_target(choice.target) for choice in choices}
            return recipe_of(choices, self.affinity, targets)
        if self.recipe is not None:
            if self.affinity:
                raise PlanError("--affinity does not go with --recipe.", hint="A recipe has rules of its own.")
            if self.fallback:
                raise PlanError("--fallback belongs to --place.", hint="A recipe has its own 'fallback'.")
            return dovetail.load_recipe(self.recipe)
        recipe = dovetail.Recipe(
            self._place(),
            tuple(dovetail.parse_placement(text) for text in split_commas(self.fallback) or (HOST_PLACE,)),
        )
        return with_affinities(recipe, self.affinity)

    def _place(self) -> Placement:
        """Return where everything goes; raise PlanError with what can be written where a precision is missing."""
        import dovetail
        from dovetail.fit.policy import choose_low

        if self.target is not None:
            return choose_low(self.target, None)
        text = self.place or ""
        if not text or "@" in text:
            return dovetail.parse_placement(text)
        what = f"--place '{text}': TARGET@PRECISION is expected"
        try:
            precisions = dovetail.find_target(text).precisions
        except DeviceNotFound as error:
            raise PlanError(f"{what}, and {error.message}", hint=error.hint) from error
        names = ", ".join(f"{text}@{precision.value}" for precision in precisions)
        raise PlanError(f"{what}, and no precision is said.", hint=f"One of {names}; or --target {text}.")


def _page(title: str, graph: Graph, plan: Plan, output: Path) -> Page:
    from dovetail.report.page import Block, Facts, Page, Table, Tone, flexible, left, right, wrapped

    counts = Counter(str(plan.placement(node.name)) for node in graph.nodes)
    blocks: list[Block] = [
        Facts("", (("file", str(output)), ("digest", plan.digest))),
        Table(
            "Placements",
            (left("placement"), right("nodes")),
            tuple((place, str(count)) for place, count in counts.most_common()),
        ),
    ]
    if plan.overrides:
        rows = tuple((node, str(item.placement), item.reason) for node, item in plan.overrides.items())
        blocks.append(Table("Away from the default", (flexible("node"), left("placement"), wrapped("why")), rows))
    return Page(f"Plan for '{title}'", tuple(blocks), open_text(graph), Tone.BAD)
