"""What a fit gives, and the folder that it fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.backend.registry import find_target
from dovetail.bundle import Bundle, save_bundle
from dovetail.errors import PlanError
from dovetail.exporters.onnx import to_onnx
from dovetail.files import write_file
from dovetail.fit.folder import claim_folder
from dovetail.fit.request import FitRequest
from dovetail.ir import Graph
from dovetail.plan import Placement, Recipe, plan_to_recipe, recipe_to_toml
from dovetail.quantize import Calibration
from dovetail.report import Picture, Report, page_html, page_text, report_page, report_to_json
from dovetail.search import TuneResult

_RECIPE_HEAD = "# Made by dovetail tune; edit it, then: dovetail plan --recipe recipe.toml\n"
_PREPROCESS_HEAD = "# Made by dovetail tune; confirm or edit it, then: dovetail tune ... --preprocess preprocess.toml\n"

_PREPROCESS_HEAD = "# Made by dovetail tune; confirm or edit it, then: dovetail tune ... --preprocess preprocess.toml\n"


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer to a request."""

    request: FitRequest
    graph: Graph
    """The model in normal form, in float, with the repairs of the plan."""
    shipped: Graph
    """The same without them."""
    calibration: Calibration
    wishes: Recipe | None
    """The recipe that was asked for."""
    result: TuneResult
    """What the search says: the plan, its evidence, scores on both splits."""
    bundle: Bundle
    """The plan compiled; it runs as it is."""
    report: Report
    pictures: tuple[Picture, ...] = ()
    """What float and the plan see in the samples of the hold-out that differ most."""
    preprocess: str = ""
    """How pictures become inputs as a file to confirm or edit, where that was found out; else empty."""

    @property
    def accepted(self) -> bool:
        """Tell whether the goal is met as surely as the policy asks for."""
        return self.result.accepted

    def __str__(self) -> str:
        return page_text(report_page(self.report))

    def save(self, folder: str | Path) -> Mapping[str, Path]:
        """Write everything into a folder, and return what each file is called.

        Raises DovetailError when the folder holds what a fit did not make, or cannot be written.
        """
        out = Path(folder)
        claim_folder(out, question_of(self.request, self.shipped, self.result.low))
        save_bundle(self.bundle, out / "bundle")
        texts: dict[str, tuple[str, str | bytes]] = {
            "plan": ("plan.json", self.result.plan.to_json()),
            "ranges": ("ranges.json", self.calibration.ranges.to_json()),
            "recipe": ("recipe.toml", _RECIPE_HEAD + self._recipe()),
            "report": ("report.txt", str(self)),
            "page": ("report.html", page_html(report_page(self.report, self.pictures))),
            "result": ("result.json", report_to_json(self.report)),
        }
        if self.result.plan.repairs:
            texts["healed"] = ("healed.onnx", to_onnx(self.graph).SerializeToString())
        if self.preprocess:
            texts["preprocess"] = ("preprocess.toml", _PREPROCESS_HEAD + self.preprocess)
        for name, text in texts.values():
            write_file(out / name, text)
        journal = self.request.journal_path
        return {
            **{what: out / name for what, (name, _) in texts.items()},
            "bundle": out / "bundle",
            **({} if journal is None else {"journal": journal}),
        }

    def _recipe(self) -> str:
        """Return the plan as a recipe for a person to edit, or the reason why there is none as a comment."""
        targets = {name: find_target(name) for name in sorted({self.result.low.target, *self.result.plan.targets})}
        try:
            recipe = plan_to_recipe(self.graph, self.result.plan, targets)
            return recipe_to_toml(recipe if self.wishes is None else replace(recipe, limits=self.wishes.limits))
        except PlanError as error:
            return f"# {error}\n"


def question_of(request: FitRequest, graph: Graph, low: Placement) -> Mapping[str, object]:
    """Return what the folder of a fit says of the question that it answers."""
    return {
        "model": str(request.model),
        "graph": graph.digest,
        "data": str(request.data),
        "low": str(low),
        "max_drop": request.max_drop,
    }
