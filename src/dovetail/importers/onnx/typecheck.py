"""Check element types against the operators' definitions, so that no runtime has to find out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from onnx import NodeProto, TensorProto, defs

from dovetail.errors import LoadError
from dovetail.importers.onnx.reader import OnnxSource, node_label
from dovetail.ir import OPSET, DType, TensorType
from dovetail.ir.codes import DTYPE_OF_CODE

_SPELT = {
    DTYPE_OF_CODE[code]: f"tensor({name.lower()})"
    for name, code in TensorProto.DataType.items()
    if code in DTYPE_OF_CODE
}
"""How operator definitions spell an element type."""


def check_types(source: OnnxSource, types: Mapping[str, TensorType]) -> None:
    """Raise LoadError when an operator of the main graph is not defined on the types that it is given."""
    for node in source.graph.node:
        schema = _schema(node.op_type) if not node.domain else None
        if schema is None:
            continue
        if node.op_type == "Mod" and types[node.output[0]].dtype.is_float and not _flag(node, "fmod"):
            raise _refused(source, node, "is not defined on floats without fmod")
        bound: dict[str, DType] = {}
        for name, formal in _pairs(node, schema):
            kind = types.get(name)
            if kind is None or not formal.types:
                continue
            if _SPELT[kind.dtype] not in formal.types:
                raise _refused(source, node, f"is not defined on {kind.dtype.value} ('{name}')")
            if not formal.is_homogeneous:
                continue
            first = bound.setdefault(formal.type_str, kind.dtype)
            if first is not kind.dtype:
                raise _refused(
                    source, node, f"takes {first.value} and {kind.dtype.value} ('{name}') where they must agree"
                )


@cache
def _schema(op: str) -> defs.OpSchema | None:
    return defs.get_schema(op, OPSET, "") if defs.has(op, OPSET, "") else None


def _pairs(node: NodeProto, schema: defs.OpSchema) -> Iterator[tuple[str, defs.OpSchema.FormalParameter]]:
    """Yield the tensors of a node with their formal parameters; the last one may stand for many."""
    for names, formals in ((node.input, schema.inputs), (node.output, schema.outputs)):
        for index, name in enumerate(names):
            if name and formals:
                yield name, formals[min(index, len(formals) - 1)]


def _flag(node: NodeProto, name: str) -> bool:
    return any(item.name == name and item.i for item in node.attribute)


def _refused(source: OnnxSource, node: NodeProto, reason: str) -> LoadError:
    return LoadError(
        f"{source.where}: {node_label(node)} {reason} at opset {OPSET}.",
        source_node=node.name,
        hint=f"Export the model at opset {OPSET}.",
    )
