"""What a fit gives, and the folder that it fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from dovetail.backend.registry import find_target
from dovetail.bundle import Bundle, save_bundle
from dovetail.errors import PlanError
from dovetail.exporters.onnx import to_onnx
from dovetail.fit.folder import claim_folder, fill_folder
from dovetail.fit.request import FitRequest
from dovetail.fit.source import source_of
from dovetail.ir import Graph
from dovetail.plan import Placement, Recipe, plan_to_recipe, recipe_to_toml
from dovetail.quantize import Calibration
from dovetail.report import Picture, Report, page_text, report_page, report_to_json
from dovetail.report.html import fragment_html
from dovetail.report.network import DrawnNetwork
from dovetail.report.promise import Promise
from dovetail.report.site import runs_html
from dovetail.report.view import VIEW_FILE, RunView
from dovetail.search import TuneResult

_RECIPE_HEAD = "# Made by dovetail tune; edit it, then: dovetail plan --recipe recipe.toml\n"
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
    promise: Promise
    """What `check` holds the plan to."""
    network: DrawnNetwork
    """What a report draws."""
    pictures: tuple[Picture, ...] = ()
    """What float and the plan see in the samples of the hold-out that differ most."""
    preprocess: str = ""
    """How pictures become inputs as a file to confirm or edit, where that was found out; else empty."""

    @property
    def accepted(self) -> bool:
        """Tell whether the goal is met as surely as the policy asks for, on the board too where one was asked."""
        return self.result.accepted and (self.report.board is None or self.report.board.accepted)

    def __str__(self) -> str:
        return page_text(report_page(self.report))

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return fragment_html(report_page(self.report, self.pictures))

    def view(self, name: str = "") -> RunView:
        """Return what a report shows of it, under a name."""
        program = source_of(replace(self.request, folder=None)).text
        version, plan = metadata.version("dovetail"), self.result.plan.digest
        again = (
            f"Dovetail {version}; model as shipped {self.shipped.digest}; plan {plan}.",
            f"dovetail.fit({program})",
        )
        return RunView(name or str(self.request.target), report_page(self.report, self.pictures), self.network, again)

    def save(self, folder: str | Path) -> Mapping[str, Path]:
        """Write everything into a folder, and return what each file is called.

        A file that a person edited since stays; the new one lies beside it. Raises DovetailError when the folder holds
        what a fit did not make, or the answer to another question, or cannot be written.
        """
        out = Path(folder)
        overwrite = self.request.overwrite
        claim_folder(out, question_of(self.request, self.shipped, self.result.low), overwrite=overwrite)
        save_bundle(self.bundle, out / "bundle")
        texts: dict[str, tuple[str, str | bytes]] = {
            "plan": ("plan.json", self.result.plan.to_json()),
            "ranges": ("ranges.json", self.calibration.ranges.to_json()),
            "recipe": ("recipe.toml", _RECIPE_HEAD + self._recipe()),
            "report": ("report.txt", str(self)),
            "page": ("report.html", runs_html([self.view(out.name)])),
            "view": (VIEW_FILE, self.view(out.name).to_json()),
            "run": ("run.json", self.promise.to_json()),
            "result": ("result.json", report_to_json(self.report)),
        }
        if self.result.surer is not None:
            texts["surer"] = ("surer.json", self.result.surer.plan.to_json())
        if self.result.plan.repairs:
            texts["healed"] = ("healed.onnx", to_onnx(self.graph).SerializeToString())
        if self.preprocess:
            texts["preprocess"] = ("preprocess.toml", _PREPROCESS_HEAD + self.preprocess)
        places = fill_folder(out, dict(texts.values()), overwrite=overwrite)
        journal = self.request.journal_path
        return {
            **{what: places[name] for what, (name, _) in texts.items()},
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
        "metric": request.metric or "",
        "low": str(low),
        "max_drop": request.max_drop,
    }
