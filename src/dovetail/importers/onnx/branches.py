"""Inline the branch of an If whose condition is a constant."""

from __future__ import annotations

from onnx import AttributeProto, GraphProto, NodeProto, helper

from dovetail.importers.onnx.reader import OnnxSource, bodies_of
from dovetail.importers.onnx.structure import body_captures
from dovetail.importers.onnx.tensors import read_tensor


def inline_decided(source: OnnxSource) -> bool:
    """Replace every decided If of the main graph by the nodes of its branch; tell whether there was one."""
    nodes: list[NodeProto] = []
    inlined = False
    for node in source.graph.node:
        condition = source.constants.get(node.input[0]) if node.op_type == "If" and node.input else None
        if condition is None or condition.array.size != 1:
            nodes.append(node)
            continue
        chosen = "then_branch" if bool(condition.array.reshape(-1)[0]) else "else_branch"
        body = next(item.g for item in node.attribute if item.name == chosen)
        nodes.extend(_inlined(source, node, body))
        inlined = True
    if inlined:
        del source.graph.node[:]
        source.graph.node.extend(nodes)
    return inlined


def _inlined(source: OnnxSource, node: NodeProto, body: GraphProto) -> list[NodeProto]:
    """Return the body's nodes under names that no other tensor has."""
    outer = set(body_captures(body))
    inside = {name for inner in body.node for name in inner.output if name}
    names = {name: f"{node.name}/{name}" for name in inside | {tensor.name for tensor in body.initializer}}
    copies: list[NodeProto] = []
    origin = source.origins.get(node.name, (node.name,))
    for given, value in zip(node.output, body.output, strict=True):
        if given and value.name in inside and names[value.name].startswith(f"{node.name}/"):
            names[value.name] = given
        elif given:
            copies.append(helper.make_node("Identity", [names.get(value.name, value.name)], [given]))
    for tensor in body.initializer:
        source.constants[names[tensor.name]] = read_tensor(tensor, None, f"constant '{tensor.name}'")
    renamed = {name: name for name in outer} | names
    result = [_rename(inner, renamed) for inner in body.node]
    for index, inner in enumerate([*result, *copies]):
        own = (inner.name,) if inner.name else ()
        inner.name = f"{node.name}/{inner.name or f'{inner.op_type}.{index}'}"
        source.origins[inner.name] = tuple(dict.fromkeys((*origin, *own)))
    return [*result, *copies]


def _rename(node: NodeProto, names: dict[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    for index, name in enumerate(copy.input):
        copy.input[index] = names.get(name, name)
    for index, name in enumerate(copy.output):
        copy.output[index] = names.get(name, name)
    for item in copy.attribute:
        if item.type == AttributeProto.GRAPH:
            _rename_captures(item.g, names)
    return copy


def _rename_captures(body: GraphProto, names: dict[str, str]) -> None:
    """Rename what a nested body reads from around it; names that it defines itself hide those outside."""
    own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    own |= {name for node in body.node for name in node.output}
    seen = {name: new for name, new in names.items() if name not in own}
    for node in body.node:
        for index, name in enumerate(node.input):
            node.input[index] = seen.get(name, name)
        for nested in bodies_of(node):
            _rename_captures(nested, seen)
    for value in body.output:
        value.name = seen.get(value.name, value.name)
