"""The planned graph as a model of its own, for toolchains that cannot take the user's file as it was planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dovetail.errors import InexpressiblePlan
from dovetail.exporters import to_onnx
from dovetail.formats.format import WriteRequest, Written
from dovetail.ir.graph import Graph
from dovetail.plan.plan import plan_from_json

MODEL = "model.onnx"
"""Role of the model that a file is for, where it is not the user's."""


def own_names(graph: Graph) -> Graph:
    """Return a graph whose nodes and tensors have no other names than their own."""
    return graph.evolve(nodes=tuple(replace(node, origin=(node.name,)) for node in graph.nodes), origins={})


def write_own(
    write: Callable[[WriteRequest], Written], request: WriteRequest, note: str, graph: Graph | None = None
) -> Written:
    """Return a file for the planned graph itself, with its model beside it, and a note that says why.

    `graph` is another form of it with the same nodes. Raises InexpressiblePlan, for the graph that was given, where the
    file cannot say what the plan says.
    """
    own = own_names(graph or request.graph)
    try:
        written = write(replace(request, graph=own, plan=replace(request.plan, graph_digest=own.digest)))
    except InexpressiblePlan as error:
        nearest = replace(plan_from_json(error.nearest), graph_digest=request.graph.digest)
        raise InexpressiblePlan(error.message, nodes=error.nodes, nearest=nearest.to_json(), hint=error.hint) from error
    return replace(written, beside={MODEL: to_onnx(own).SerializeToString()}, notes=(note,))
