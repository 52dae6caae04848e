"""dovetail demo: the whole way on an embedded model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.tune import Tune, answer
from dovetail.cli.tuning import Tuned, run_job
from dovetail.cli.verb import Answer, Verb
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.report import Prose

_PARTS = ("digits.onnx", "calib.npz", "eval.npz", "metric.py")


@dataclass(frozen=True, kw_only=True)
class Demo(Verb):
    """Tune an embedded digit detector that 8 bits break.

    No board, no vendor account, no network. The folder has everything that `dovetail tune` writes.
    """

    output: Annotated[
        Path, typer.Option("--output", "--out", "-o", metavar="FOLDER", help="Folder for everything.")
    ] = Path("dovetail-out")

    def run(self, screen: Screen) -> Answer:
        verb = self._tune()
        tuned = run_job(verb.job(), screen)
        found = answer(tuned, verb.model)
        return replace(found, page=replace(found.page, blocks=(*_story(tuned), *found.page.blocks)))

    def python(self) -> str:
        return self._tune().python()

    def resume_note(self) -> str:
        return self._tune().resume_note()

    def _tune(self) -> Tune:
        folder = find_digits()
        return Tune(
            model=folder / "digits.onnx",
            data=str(folder / "eval.npz"),
            calib=str(folder / "calib.npz"),
            metric=f"{folder / 'metric.py'}:score",
            target="vsi:v853",
            low="i8pc",
            raises=["i16"],
            max_drop="1%",
            output=self.output,
        )


def find_digits() -> Path:
    """Return the folder of the digit detector, in an installed package or in the repository; raise DovetailError."""
    package = Path(__file__).parents[1]
    places = (package / "examples" / "digits", package.parents[1] / "examples" / "digits")
    for place in places:
        if all((place / name).is_file() for name in _PARTS):
            return place
    raise DovetailError(
        f"the demo's model is missing: neither {places[0]} nor {places[1]} has it.",
        hint="Install Dovetail again, or run the demo from its repository.",
    )


def _story(tuned: Tuned) -> tuple[Prose, ...]:
    from dovetail.report.page import Prose

    result = tuned.result
    holdout = result.holdout
    lines = [
        f"In float the detector is right on {holdout.float_score:.1%} of {holdout.samples} pictures.",
        f"With every layer at {result.low} it is right on {holdout.low:.1%}.",
    ]
    if result.culprits:
        units = ", ".join(item.unit for item in result.culprits)
        lines.append(f"{len(result.culprits)} of {result.unit_count} units break it: {units}.")
    score = holdout.tuned if holdout.tuned_exact is None else holdout.tuned_exact
    lines.append(
        f"With those raised it is right on {score:.1%} of pictures that the search never saw, in exact arithmetic."
    )
    return (Prose("What happened", tuple(lines)),)
