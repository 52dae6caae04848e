"""If, While and Call: other subgraphs as bodies, each with its operator one unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dovetail.importers.tflite.layout import TensorForm
from dovetail.importers.tflite.model import LiteGraph
from dovetail.importers.tflite.scope import CONTROL_DEPTH, Scope
from dovetail.importers.tflite.site import Site
from dovetail.ir import DType, Graph, TensorType

Fill = Callable[[Scope], None]
"""Adds the nodes of a subgraph's operators."""


def _subgraph(site: Site, name: str) -> LiteGraph:
    graphs = site.scope.settings.model.graphs
    index = site.operator.options.integer(name, -1)
    if not 0 < index < len(graphs):
        raise site.fail(f"it names subgraph {index} of {len(graphs)}")
    if site.scope.depth >= CONTROL_DEPTH:
        raise site.fail(f"its bodies lie more than {CONTROL_DEPTH} deep")
    return graphs[index]


def _open(site: Site, lite: LiteGraph, what: str, given: int) -> Scope:
    if len(lite.inputs) != given:
        raise site.fail(f"its {what} takes {len(lite.inputs)} inputs and is given {given}")
    return Scope(site.scope.settings, lite, f"{site.stem}/{what}/", site.scope.depth + 1)


def _capture(site: Site, scope: Scope, first: int) -> tuple[str, ...]:
    """Let a body's inputs be the tensors around it."""
    names = tuple(site.read(first + offset) for offset in range(len(scope.lite.inputs)))
    for index, name in zip(scope.lite.inputs, names, strict=True):
        scope.types[name] = site.scope.types[name]
        scope.bind(index, name)
    return tuple(dict.fromkeys(names))


def _body(scope: Scope, captures: tuple[str, ...], fill: Fill) -> Graph:
    fill(scope)
    draft = scope.draft(scope.prefix.rstrip("/"), captures)
    return draft.graph()


def convert_if(site: Site, fill: Fill) -> None:
    """Make an If whose branches read the operator's inputs from around them."""
    branches: dict[str, object] = {}
    for option, what in (("ThenSubgraphIndex", "then"), ("ElseSubgraphIndex", "else")):
        lite = _subgraph(site, option)
        scope = _open(site, lite, what, site.count - 1)
        captures = _capture(site, scope, 1)
        branches[f"{what}_branch"] = _body(scope, captures, fill)
    condition = site.read(0)
    if site.scope.types[condition].shape != ():
        condition = site.emit("Reshape", (condition, site.number((), "scalar")), TensorType(DType.BOOL, ()))
    _finish(site, "If", (condition,), branches)


def convert_while(site: Site, fill: Fill) -> None:
    """Make a Loop: the condition is computed before the first round and at the end of each."""
    condition, body = _subgraph(site, "CondSubgraphIndex"), _subgraph(site, "BodySubgraphIndex")
    start = _inline(site.scope, condition, [site.read(index) for index in range(site.count)], site, "condition", fill)
    scope = _open(site, body, "body", site.count)
    for index in body.inputs:
        scope.declare(index, TensorForm.LAST)
    fill(scope)
    trip, go_on = f"{scope.prefix}trip", f"{scope.prefix}condition"
    scope.types[trip], scope.types[go_on] = TensorType(DType.I64, ()), TensorType(DType.BOOL, ())
    draft = scope.draft(scope.prefix.rstrip("/"))
    again = _inline(scope, condition, list(draft.outputs), site, "again", fill)
    graph = Graph(
        name=draft.name,
        nodes=tuple(scope.nodes),
        inputs=(trip, go_on, *draft.inputs),
        outputs=(again, *draft.outputs),
        types=scope.types,
        constants=scope.constants,
        origins=scope.origins,
    )
    carried = tuple(site.read(index) for index in range(site.count))
    _finish(site, "Loop", ("", start, *carried), {"body": graph})


def _inline(scope: Scope, lite: LiteGraph, names: Sequence[str], site: Site, what: str, fill: Fill) -> str:
    """Add the nodes of a condition to a scope and return its one output as a scalar."""
    if len(lite.inputs) != len(names) or len(lite.outputs) != 1:
        raise site.fail(f"its condition takes {len(lite.inputs)} inputs and gives {len(lite.outputs)} outputs")
    inner = Scope(scope.settings, lite, f"{site.stem}/{what}/", site.scope.depth + 1)
    for index, name in zip(lite.inputs, names, strict=True):
        inner.types[name] = scope.types[name]
        inner.bind(index, name)
    fill(inner)
    result = inner.read(lite.outputs[0], TensorForm.LAST, site.label)
    scope.absorb(inner)
    if scope.types[result].shape == ():
        return result
    name = scope.fresh(f"{result}/scalar")
    scope.types[name] = TensorType(DType.BOOL, ())
    shape = scope.store(f"{result}/shape", np.zeros(0, np.int64), TensorType(DType.I64, (0,)))
    scope.add("Reshape", (result, shape), (name,), name)
    return name


def convert_call(site: Site, fill: Fill) -> None:
    """Put the nodes of another subgraph in the place of the call."""
    lite = _subgraph(site, "Subgraph")
    scope = _open(site, lite, "call", site.count)
    _capture(site, scope, 0)
    fill(scope)
    results = [scope.read(index, TensorForm.LAST, site.label) for index in lite.outputs]
    site.scope.absorb(scope)
    for output, name in enumerate(results):
        site.conclude(output, "Identity", (name,))


def _finish(site: Site, op: str, inputs: Sequence[str], bodies: dict[str, object]) -> None:
    outputs = tuple(site.scope.declare(index, TensorForm.LAST) for index in site.operator.outputs)
    site.scope.add(op, inputs, outputs, site.stem, bodies)
