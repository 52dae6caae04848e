"""Check element types and sizes against the operators' definitions, so that no runtime has to find out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache

from onnx import NodeProto, TensorProto, defs

from dovetail.errors import LoadError
from dovetail.importers.onnx.reader import OnnxSource, node_label
from dovetail.ir import OPSET, DType, TensorType
from dovetail.ir.codes import DTYPE_OF_CODE
from dovetail.ir.types import Dim, Shape

_BROADCAST = frozenset({"Add", "And", "Div", "Equal", "Max", "Min", "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor"})
"""Operators whose operands have the same size along an axis, or one of one."""
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


def check_sizes(source: OnnxSource, types: Mapping[str, TensorType]) -> None:
    """Raise LoadError where operands that have to be alike have different sizes, as odd sizes of inputs make them.

    Of outputs that are read inside, too, it may be the file alone that says a size: they are left out.
    """
    stated = {value.name for value in source.graph.output}
    for node in source.graph.node:
        shapes = [types[name].shape for name in node.input if name in types and name not in stated]
        known = [shape for shape in shapes if shape is not None]
        if node.domain or len(known) < 2 or not _clash(node, known):
            continue
        given = [value.name for value in source.graph.input if value.name in types]
        inputs = ", ".join(f"'{name}' {_sizes(types[name].shape)}" for name in given)
        raise LoadError(
            f"{source.where}: with {inputs} {node_label(node)} is given {' and '.join(map(_sizes, known))}, which do "
            "not fit.",
            source_node=node.name,
            hint="Where a network halves a picture and doubles it again, its sides are multiples of the largest "
            "stride: 32 in most, such as 320, 416 or 640.",
        )


def _clash(node: NodeProto, shapes: Sequence[Shape]) -> bool:
    """Tell whether known sizes along an axis differ where they have to be the same."""
    if node.op_type in _BROADCAST:
        rank = max(map(len, shapes))
        full = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
        return any(_differ(sizes, {1}) for sizes in zip(*full, strict=True))
    if node.op_type == "Concat" and shapes[0] and len({len(shape) for shape in shapes}) == 1:
        axis = next((item.i % len(shapes[0]) for item in node.attribute if item.name == "axis"), 0)
        return any(_differ(sizes) for place, sizes in enumerate(zip(*shapes, strict=True)) if place != axis)
    return False


def _differ(sizes: Sequence[Dim], free: Set[int] = frozenset()) -> bool:
    """Tell whether there are several known sizes, those that are free left out."""
    return len({size for size in sizes if isinstance(size, int)} - free) > 1


def _sizes(shape: Shape | None) -> str:
    return "?" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


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
