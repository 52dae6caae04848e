"""Operators on variables: what they read comes in by an input, what they leave goes out (`states`)."""

from __future__ import annotations

from dovetail.importers.tflite.operators.table import Converters
from dovetail.importers.tflite.site import Site
from dovetail.importers.tflite.states import Variable, variable_name

_CUT = "Export the model with its states as inputs and outputs, or cut it before this operator."


def _handle(site: Site) -> None:
    site.scope.handles[site.operator.outputs[0]] = variable_name(site.operator)


def _variable(site: Site) -> Variable:
    """Return the variable that input 0 stands for."""
    if site.scope.depth:
        raise site.fail("it keeps a state inside a body of control flow, which a graph cannot", _CUT)
    name = site.scope.handles.get(site.operator.inputs[0]) if site.has(0) else None
    if name is None:
        raise site.fail("no VAR_HANDLE of its subgraph says which variable it means", _CUT)
    return site.scope.settings.variables.named(name)


def _read(site: Site) -> None:
    variable, scope, kind = _variable(site), site.scope, site.result_type()
    if not variable.current:
        first = variable.first
        if first is not None and first.shape != kind.shape:
            raise site.fail(f"variable '{variable.name}' begins with the shape {list(first.shape)}", _CUT)
        if first is not None and variable.name not in scope.settings.variables.written:
            variable.current = scope.store(variable.name, first, kind)
        else:
            variable.source = variable.current = scope.fresh(variable.name)
            scope.types[variable.source] = kind
    held = scope.types[variable.current]
    if held != kind:
        raise site.fail(f"variable '{variable.name}' holds {held} and is read as {kind}", _CUT)
    scope.bind(site.operator.outputs[0], variable.current)


def _assign(site: Site) -> None:
    _variable(site).current = site.read(1)


def _call_once(site: Site) -> None:
    """Take nothing: the first values are known (`variables_of`), and belong to whoever runs the model."""
    graphs = site.scope.settings.model.graphs
    index = site.operator.options.integer("InitSubgraphIndex", -1)
    if not 0 < index < len(graphs):
        raise site.fail(f"it names subgraph {index} of {len(graphs)}")
    odd = next((item.kind for item in graphs[index].operators if item.kind not in _BEGINNING), None)
    if odd is not None:
        raise site.fail(f"what variables begin with is computed ({odd})", _CUT)


_BEGINNING = ("VAR_HANDLE", "ASSIGN_VARIABLE")

CONVERTERS: Converters = {
    "ASSIGN_VARIABLE": _assign,
    "CALL_ONCE": _call_once,
    "READ_VARIABLE": _read,
    "VAR_HANDLE": _handle,
}
