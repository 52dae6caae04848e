"""Check the names in a file before anything uses or prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from dovetail.errors import LoadError

MAX_NAME = 4096


def check_names(model: ModelProto, where: str) -> None:
    """Raise LoadError when a name is not text of one line; protobuf itself lets any bytes pass."""
    for name in _names(model):
        if not isinstance(name, str) or len(name) > MAX_NAME or (name and not name.isprintable()):
            shown = repr(name)[:60]
            raise LoadError(f"{where}: damaged: the name {shown} is not printable text of one line.")


def _names(model: ModelProto) -> Iterator[object]:
    yield from (item.domain for item in model.opset_import)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
        yield from (item.domain for item in function.opset_import)
        yield from _node_names(function.node)
    yield from _graph_names(model.graph, 0)


def _graph_names(graph: GraphProto, depth: int) -> Iterator[object]:
    yield graph.name
    yield from _value_names([*graph.input, *graph.output])
    yield from (tensor.name for tensor in graph.initializer)
    yield from _node_names(graph.node, depth)


def _value_names(values: Iterable[ValueInfoProto]) -> Iterator[object]:
    for value in values:
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)


def _node_names(nodes: Iterable[NodeProto], depth: int = 0) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name, attribute.t.name)
            # Deeper nesting is refused elsewhere; here it must only not exhaust the stack.
            if attribute.type == AttributeProto.GRAPH and depth < 32:
                yield from _graph_names(attribute.g, depth + 1)
