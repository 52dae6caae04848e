"""Read ONNX models."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from dovetail.importers.onnx.build import build_graph
from dovetail.importers.onnx.dynamic import take_as_floats
from dovetail.importers.onnx.fold import fold_constants
from dovetail.importers.onnx.foreign import rewrite_foreign
from dovetail.importers.onnx.guards import check_guards
from dovetail.importers.onnx.infer import check_model
from dovetail.importers.onnx.opsets import bring_to_pinned, inline_functions, opset_of
from dovetail.importers.onnx.reader import check_interface, read_source
from dovetail.importers.onnx.structure import arrange
from dovetail.importers.onnx.typecheck import check_sizes, check_types
from dovetail.importers.onnx.weights import check_values
from dovetail.importers.options import LoadOptions
from dovetail.ir import OPSET, Graph

__all__ = ["load_onnx"]


def load_onnx(
    source: Path | bytes | ModelProto, options: LoadOptions | None = None, *, where: str | None = None
) -> Graph:
    """Return the Graph of an ONNX model at opset 7 or newer; raise LoadError when it cannot be represented.

    Constants are folded, functions inlined, and Quantize/Dequantize pairs become quantised types. Messages call the
    model `where`, which is its path if nothing else is said.
    """
    model = read_source(source, options or LoadOptions())
    model.where = where or model.where
    version = opset_of(model.model, model.where)
    check_interface(model)
    arrange(model)
    check_guards(model, version)
    check_model(model)
    inline_functions(model)
    bring_to_pinned(model)
    if not model.options.exact_hybrid:
        take_as_floats(model)
    rewrite_foreign(model)
    arrange(model)
    check_guards(model, OPSET)
    types = fold_constants(model)
    check_types(model, types)
    check_sizes(model, types)
    check_values(model)
    return build_graph(model, types)
