"""Open the model that a plan is for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import PlanError
from dovetail.fit.folder import read_question
from dovetail.importers import LoadOptions, load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Plan
from dovetail.quantize import dequantize, is_quantized
from dovetail.repair import repaired_for


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model in float: as it was shipped, and with the repairs of a plan."""

    shipped: Graph
    graph: Graph


def open_planned(model: Path, plan: Plan, options: LoadOptions | None = None) -> PlannedModel:
    """Return a model as a plan takes it: a quantised one as the float model that it stands for, with its repairs.

    It may be another model than the plan was made for: the caller checks. Raises DovetailError when it cannot be read.
    """
    chosen = options or LoadOptions()
    graph = normalize(load_model(model, chosen), chosen.passes)
    if graph.digest != plan.graph_digest and is_quantized(graph):
        graph = dequantize(graph).graph
    return PlannedModel(graph, repaired_for(plan, graph))


def model_beside(plan: Path) -> Path:
    """Return the model that the folder of a search says its plan is for; raise PlanError where nothing says it."""
    question = read_question(plan.parent)
    name = None if question is None else question.get("model")
    if not isinstance(name, str):
        raise PlanError(
            f"{plan}: nothing beside it says which model it is for.", hint="Name the model.", option="model"
        )
    if not Path(name).exists():
        raise PlanError(
            f"{plan.parent} says that the model is {name}, which is not there.", hint="Name the model.", option="model"
        )
    return Path(name)
