"""Constants as ONNX Runtime's quantiser takes them: each is stored in one form, for all that read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onnx import ModelProto

from dovetail.formats.format import WriteRequest
from dovetail.formats.onnxruntime.scales import read_type
from dovetail.ir.dtypes import DType
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.ir.roles import Role, input_roles
from dovetail.plan.plan import Plan

WIDE_PRECISIONS = (Precision.W8A16, Precision.I16)


def with_own_constants(request: WriteRequest) -> tuple[Graph, str]:
    """Return the graph with a constant for each form in which one is read, and why it is another graph, if it is."""
    graph, shared = request.graph, ""
    readings: dict[str, dict[object, list[tuple[str, int]]]] = {}
    for node, position, role in _reads(graph):
        form = _form(request, node, position, role)
        readings.setdefault(node.inputs[position], {}).setdefault(form, []).append((node.name, position))
    constants, types = dict(graph.constants), dict(graph.types)
    nodes = {node.name: node for node in graph.nodes}
    for name, forms in readings.items():
        for number, places in enumerate(list(forms.values())[1:], 2):
            shared = shared or f"constant '{name}' is read in {len(forms)} forms"
            copy = f"{name}@{number}"
            while copy in types:
                copy += "@"
            constants[copy], types[copy] = graph.constants[name], graph.types[name]
            for reader, position in places:
                inputs = list(nodes[reader].inputs)
                inputs[position] = copy
                nodes[reader] = replace(nodes[reader], inputs=tuple(inputs))
    if not shared:
        return graph, ""
    return graph.evolve(constants=constants, types=types, nodes=tuple(nodes.values())), shared


def computed_constant(model: ModelProto, graph: Graph, plan: Plan) -> str:
    """Return the name of a constant that a plan says something of and the file computes; an empty text without one."""
    stored = {item.name for item in model.graph.initializer}
    for node, position, role in _reads(graph):
        precision, name = plan.placement(node.name).precision, node.inputs[position]
        if role is Role.WEIGHT:
            said = precision.is_quantized and precision.weight != plan.default.precision.weight
        else:
            said = precision in WIDE_PRECISIONS
        if said and graph.origin_of(name) not in stored:
            return name
    return ""


def _reads(graph: Graph) -> Iterator[tuple[Node, int, Role]]:
    """Yield the operands of nodes that are constants and no biases: those have a form that follows from the others."""
    for node in graph.nodes:
        for position, role in enumerate(input_roles(graph, node)):
            name = node.inputs[position]
            if role in (Role.WEIGHT, Role.DATA) and name in graph.constants and graph.types[name].holds_reals:
                yield node, position, role


def _form(request: WriteRequest, node: Node, position: int, role: Role) -> object:
    """Return what tells forms apart: the numbers, the axis with a scale for each channel, the scale of 16 bits."""
    precision = request.plan.placement(node.name).precision
    if not precision.is_quantized:
        return None
    numbers = precision.weight if role is Role.WEIGHT else precision.activation
    if request.quantized is None:
        return numbers, (node.op, node.integer("transB", 0)) if numbers.per_channel else None
    quant = read_type(request.quantized, node, position).quant
    if quant is None:
        return None
    return numbers, quant.axis, quant.scale if numbers.dtype is DType.I16 else None
