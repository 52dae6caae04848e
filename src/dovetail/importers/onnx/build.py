"""Make a Graph of a read, converted and typed model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from dovetail.errors import GraphError, LoadError
from dovetail.importers.onnx.infer import types_of
from dovetail.importers.onnx.quantized import fold_quantization
from dovetail.importers.onnx.reader import OnnxSource, node_label
from dovetail.importers.onnx.structure import body_captures
from dovetail.importers.onnx.tensors import Stored, read_tensor
from dovetail.ir import DType, Graph, Node, TensorType, prune
from dovetail.passes.draft import Draft


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a body sees of the graphs around it."""

    types: Mapping[str, TensorType]
    constants: Mapping[str, Stored]


def build_graph(source: OnnxSource, types: Mapping[str, TensorType]) -> Graph:
    """Return the Graph; raise LoadError naming the node or tensor that it cannot represent."""
    draft = _draft(source, source.graph, source.constants, dict(types), ())
    try:
        return prune(fold_quantization(draft, source.where))
    except GraphError as error:
        raise LoadError(f"{source.where}: {error.message}") from error


def _draft(
    source: OnnxSource,
    graph: GraphProto,
    constants: Mapping[str, Stored],
    types: dict[str, TensorType],
    captures: tuple[str, ...],
) -> Draft:
    scope = _Scope(types, constants)
    nodes = [_node(source, node, scope) for node in graph.node]
    for node in nodes:
        for name in node.outputs:
            if name and name not in types:
                raise LoadError(
                    f"{source.where}: the type of '{name}', made by {node.label}, cannot be inferred.",
                    source_node=node.name,
                    hint="Simplify the model, or declare the type in its value_info.",
                )
    inputs = tuple(value.name for value in graph.input)
    for name in inputs:
        if name not in types:
            raise LoadError(f"{source.where}: the type of input '{name}' of graph '{graph.name}' is not known.")
    kept = {*inputs, *captures, *constants} | {name for node in nodes for name in node.outputs}
    return Draft(
        name=graph.name or "main",
        nodes=nodes,
        inputs=inputs,
        outputs=tuple(value.name for value in graph.output),
        types={name: kind for name, kind in types.items() if name in kept},
        constants={name: stored.array for name, stored in constants.items()},
        captures=captures,
        outer={},
    )


def _node(source: OnnxSource, node: NodeProto, scope: _Scope) -> Node:
    attributes = {item.name: _attribute(source, node, item, scope) for item in node.attribute}
    outputs = list(node.output)
    inputs = list(node.input)
    while inputs and not inputs[-1]:
        inputs.pop()
    while outputs and not outputs[-1]:
        outputs.pop()
    origin = source.origins.get(node.name, (node.name,))
    return Node(node.name, node.op_type, tuple(inputs), tuple(outputs), attributes, node.domain, origin)


def _attribute(source: OnnxSource, node: NodeProto, attribute: AttributeProto, scope: _Scope) -> object:
    where = f"attribute '{attribute.name}' of {node_label(node)}"
    if attribute.type == AttributeProto.INT:
        return int(attribute.i)
    if attribute.type == AttributeProto.FLOAT:
        return float(attribute.f)
    if attribute.type == AttributeProto.STRING:
        return _text(attribute.s, where)
    if attribute.type == AttributeProto.INTS:
        return tuple(int(value) for value in attribute.ints)
    if attribute.type == AttributeProto.FLOATS:
        return tuple(float(value) for value in attribute.floats)
    if attribute.type == AttributeProto.STRINGS:
        return tuple(_text(value, where) for value in attribute.strings)
    if attribute.type == AttributeProto.TENSOR:
        return _tensor_attribute(attribute.t, where)
    if attribute.type == AttributeProto.GRAPH:
        return _body(source, attribute.g, scope)
    raise LoadError(f"{source.where}: {where} has a type that Dovetail does not represent.", source_node=node.name)


def _tensor_attribute(tensor: TensorProto, where: str) -> object:
    stored = read_tensor(tensor, None, where)
    if stored.dtype is DType.BF16:
        raise LoadError(f"{where} is a bfloat16 tensor; attributes hold float or integer tensors.")
    return stored.array


def _text(value: bytes, where: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise LoadError(f"{where} is not text.") from error


def _body(source: OnnxSource, graph: GraphProto, scope: _Scope) -> Graph:
    captures = tuple(body_captures(graph))
    own = {tensor.name: read_tensor(tensor, None, f"constant '{tensor.name}'") for tensor in graph.initializer}
    types = types_of([*graph.input, *graph.value_info, *graph.output])
    types |= {name: scope.types[name] for name in captures if name in scope.types}
    types |= {name: TensorType(stored.dtype, tuple(stored.array.shape)) for name, stored in own.items()}
    outside = _Scope(dict(scope.types) | types, dict(scope.constants) | own)
    draft = _draft(source, graph, own, dict(outside.types), captures)
    draft.outer = {name: outside.constants[name].array for name in captures if name in outside.constants}
    try:
        return prune(fold_quantization(draft, source.where, body=True))
    except GraphError as error:
        raise LoadError(f"{source.where}: {error.message}") from error
