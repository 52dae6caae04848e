"""What OpenVINO's devices say themselves that they take: `Core.query_model` of the devices that are here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from glob import escape

from dovetail.backend.registry import find_target
from dovetail.errors import PlanError
from dovetail.exporters import to_onnx
from dovetail.formats.openvino.model import OpenVinoModel, bind_operators
from dovetail.ir.graph import Graph
from dovetail.plan.placement import Placement
from dovetail.plan.recipe import Recipe, Rule

_PREFIX = "openvino:"
_NO_WORK = frozenset({"Parameter", "Constant", "Result"})


def with_live_refusals(recipe: Recipe, graph: Graph) -> Recipe:
    """Return a recipe that sends what its OpenVINO devices refuse here to the placements that follow.

    Raises PlanError where the recipe has no such device, or nothing follows one that refuses nodes.
    """
    order = (recipe.default, *recipe.fallback)
    asked = [place for place in order if place.target.startswith(_PREFIX)]
    if not asked:
        raise PlanError(
            "there is no device of OpenVINO's to ask.", hint="For example openvino:CPU, then cpu.", option="query"
        )
    refused = {place.target: refused_here(graph, place.target) for place in dict.fromkeys(asked)}
    rules: list[Rule] = []
    for node in graph.nodes:
        first = order[0]
        if node.name not in refused.get(first.target, ()):
            continue
        place = _next(order, node.name, refused)
        rules.append(Rule(place, node=escape(node.name), op=node.op, reason=f"{first.target} refuses it (query_model)"))
    return replace(recipe, rules=(*rules, *recipe.rules))


def _next(order: Iterable[Placement], node: str, refused: Mapping[str, frozenset[str]]) -> Placement:
    for place in order:
        if node not in refused.get(place.target, ()):
            return place
    raise PlanError(f"every device refuses '{node}' (query_model).", hint="Append a device, such as cpu.")


def refused_here(graph: Graph, target: str) -> frozenset[str]:
    """Return the nodes that the device of a target refuses here; raise DovetailError where it is not here."""
    import openvino

    find_target(target)
    device = target.removeprefix(_PREFIX)
    try:
        core = openvino.Core()
        model = core.read_model(to_onnx(graph).SerializeToString())
        taken = core.query_model(model, device)
    except RuntimeError as error:
        message = (str(error).strip().splitlines() or ["no reason"])[-1].strip().rstrip(".")
        raise PlanError(
            f"{target}: query_model does not answer: {message}.", hint="Plan without asking it.", option="query"
        ) from error
    return refused_nodes(graph, model, taken)


def refused_nodes(graph: Graph, model: OpenVinoModel, taken: Mapping[str, str]) -> frozenset[str]:
    """Return the nodes of which some operator is not among those that a device takes, by friendly name."""
    nodes_of = bind_operators(model, graph).nodes_of
    names = [
        op.get_friendly_name()
        for op in model.get_ordered_ops()
        if op.get_type_name() not in _NO_WORK and op.get_friendly_name() not in taken
    ]
    return frozenset(node for name in names for node in nodes_of.get(name, ()))
