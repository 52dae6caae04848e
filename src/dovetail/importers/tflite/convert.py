"""Turn the subgraphs of a TFLite model into a Graph."""

from __future__ import annotations

from dovetail.errors import LoadError
from dovetail.importers.assemble import assemble
from dovetail.importers.options import LoadOptions
from dovetail.importers.tflite.control import convert_call, convert_if, convert_while
from dovetail.importers.tflite.layout import TensorForm
from dovetail.importers.tflite.model import LiteModel, LiteOperator
from dovetail.importers.tflite.operators import CONVERTERS, CUSTOM, OF_SPECTRA
from dovetail.importers.tflite.operators.table import Converter
from dovetail.importers.tflite.scope import ImportSettings, Scope
from dovetail.importers.tflite.settle import is_open, settle, state_shape
from dovetail.importers.tflite.site import Site
from dovetail.importers.tflite.states import variables_of
from dovetail.ir import Graph

_SPARE = 8
_CONTROL = {"CALL": convert_call, "IF": convert_if, "WHILE": convert_while}


def known_operators() -> frozenset[str]:
    """Return the builtin and custom operators that can be converted."""
    return frozenset({*CONVERTERS, *CUSTOM, *_CONTROL})


def _converter(operator: LiteOperator) -> Converter | None:
    if operator.custom:
        return CUSTOM.get(operator.kind)
    if operator.kind in _CONTROL:
        control = _CONTROL[operator.kind]
        return lambda site: control(site, convert_operators)
    return CONVERTERS.get(operator.kind)


def convert_model(model: LiteModel, options: LoadOptions) -> Graph:
    """Return the Graph of the first subgraph; raise LoadError naming the operator that has no counterpart."""
    _check_shapes(model, options)
    budget = _SPARE * model.size_bytes + options.max_fold_bytes
    settings = ImportSettings(model, options.exact_hybrid, [budget], variables_of(model), is_open(model))
    scope = Scope(settings, model.graphs[0])
    for index in scope.lite.inputs:
        scope.declare(index, TensorForm.LAST)
    convert_operators(scope)
    return assemble(scope.draft(scope.lite.name), model.where, options)


def _check_shapes(model: LiteModel, options: LoadOptions) -> None:
    """Raise LoadError when other input sizes are asked for: those of the file are in its constants too."""
    lite = model.graphs[0]
    known = {lite.tensors[index].name: lite.tensors[index].shape for index in lite.inputs}
    for name, shape in options.shapes.items():
        if known.get(name) != tuple(shape):
            has = f"has the shape {list(known[name])}" if name in known else "is no input"
            raise LoadError(
                f"{model.where}: '{name}' {has}; a TFLite model keeps the shapes that it was converted with.",
                source_node=name,
                hint="Convert the model again with the wanted shape.",
            )


def convert_operators(scope: Scope) -> None:
    """Add the nodes of every operator of a subgraph."""
    for index, operator in enumerate(scope.lite.operators):
        site = Site(scope, operator, index)
        complex_input = bool(operator.inputs) and operator.inputs[0] in scope.spectra
        converter = OF_SPECTRA.get(operator.kind) if complex_input else _converter(operator)
        if converter is None:
            kind = "custom operator" if operator.custom else "operator"
            raise LoadError(
                f"{scope.where}: {site.label}: this {kind} has no counterpart in Dovetail.",
                source_node=site.label,
                hint="Cut the model before it, or see 'dovetail inspect' for all that is missing.",
            )
        made = [scope.forms(tensor) for tensor in operator.outputs]
        if any(made):
            raise site.fail("it makes a tensor that exists already")
        start = len(scope.nodes)
        try:
            if scope.settings.is_open:
                state_shape(site)
            converter(site)
            settle(scope, operator, start)
        except (IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError, ZeroDivisionError) as error:
            raise site.fail(f"its options or tensors contradict each other ({error!r:.80})") from error
