"""The text form of a Graph: `parse_graph(print_graph(graph)) == graph`.

One line a thing, names quoted as in JSON:

    graph "main" opset 21
    input "x": f32["N", 3, 8, 8]
    constant "w": i8[4, 3, 1, 1] q(axis=0, scale=[0.5, ...], zero=[0, ...]) = base64 "..."
    "conv1" = Conv("x", "w") -> ("y": f32["N", 4, 8, 8]) {"strides": [1, 1]} origin ["conv1"]
    output "y"
    end
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.node import Body, Node
from dovetail.ir.types import Dim, TensorType

ConstantPrinter = Callable[[AnyArray], str]

_SHORT = 16


def print_graph(graph: Body) -> str:
    """Return the text form with every constant inside it."""
    return "\n".join(graph_lines(graph, inline_constant)) + "\n"


def graph_lines(graph: Body, constant: ConstantPrinter) -> Iterator[str]:
    """Yield the lines of the text form; `constant` prints the value of a constant."""
    yield f"graph {json.dumps(graph.name)} opset 21"
    for tensor in graph.captures:
        yield f"capture {typed_name(tensor, graph.types[tensor])}"
    for tensor in graph.inputs:
        yield f"input {typed_name(tensor, graph.types[tensor])}"
    for tensor in sorted(graph.constants):
        yield f"constant {typed_name(tensor, graph.types[tensor])} = {constant(graph.constants[tensor])}"
    for node in graph.nodes:
        yield _node_line(graph, node, constant)
    for tensor in graph.outputs:
        yield f"output {json.dumps(tensor)}"
    for tensor in sorted(graph.origins):
        yield f"origin {json.dumps(tensor)}: {json.dumps(graph.origins[tensor])}"
    yield "end"


def typed_name(tensor: str, kind: TensorType) -> str:
    """Return a tensor's name and type as text."""
    return f"{json.dumps(tensor)}: {print_type(kind)}"


def print_type(kind: TensorType) -> str:
    """Return a type as text, such as `i8["N", 3] q(scale=[0.5], zero=[3])`."""
    shape = "[*]" if kind.shape is None else "[" + ", ".join(_dim(dim) for dim in kind.shape) + "]"
    text = kind.dtype.value + shape
    if kind.quant is not None:
        axis = "" if kind.quant.axis is None else f"axis={kind.quant.axis}, "
        scale, zero = json.dumps(list(kind.quant.scale)), json.dumps(list(kind.quant.zero_point))
        text += f" q({axis}scale={scale}, zero={zero})"
    return text


def _dim(dim: Dim) -> str:
    return "?" if dim is None else json.dumps(dim)


def _node_line(graph: Body, node: Node, constant: ConstantPrinter) -> str:
    op = f"{node.domain}::{node.op}" if node.domain else node.op
    inputs = ", ".join(json.dumps(tensor) for tensor in node.inputs)
    outputs = ", ".join(
        typed_name(tensor, graph.types[tensor]) if tensor else json.dumps("") for tensor in node.outputs
    )
    line = f"{json.dumps(node.name)} = {op}({inputs}) -> ({outputs})"
    if node.attributes:
        items = (f"{json.dumps(key)}: {_attribute(node.attributes[key], constant)}" for key in sorted(node.attributes))
        line += " {" + ", ".join(items) + "}"
    if node.origin != (node.name,):
        line += f" origin {json.dumps(list(node.origin))}"
    return line


def _attribute(value: object, constant: ConstantPrinter) -> str:
    if isinstance(value, Body):
        return json.dumps({"$graph": list(graph_lines(value, constant))})
    if isinstance(value, np.ndarray):
        return json.dumps({"$array": f"{value.dtype.str}{list(value.shape)} = {constant(value)}"})
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def inline_constant(array: AnyArray) -> str:
    """Return the value of a constant as text: a list when it is short, else base64 of little-endian bytes."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.size <= _SHORT and array.ndim <= 1 and array.dtype.itemsize <= 8:
        return json.dumps(_numbers(array))
    import base64  # A board writes no text.

    return f'base64 "{base64.b64encode(little.tobytes()).decode()}"'


def _numbers(array: AnyArray) -> object:
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
    numbers: object = array.tolist()
    return numbers
