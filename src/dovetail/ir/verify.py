"""The invariants of a Graph, checked on construction."""

from __future__ import annotations

import math

from dovetail.errors import GraphError
from dovetail.ir.dtypes import DType
from dovetail.ir.node import Body, Node
from dovetail.ir.types import TensorType

MAX_DIM = 2**31 - 1
MAX_RANK = 16


def verify_graph(graph: Body) -> None:
    """Raise GraphError when the graph breaks an invariant; the message names the place."""
    defined: set[str] = set(graph.captures)
    for tensor in graph.inputs:
        _define(graph, tensor, defined, "graph input")
    for tensor, array in graph.constants.items():
        if tensor in graph.inputs:
            raise GraphError(f"graph '{graph.name}': tensor '{tensor}' is both an input and a constant")
        _define(graph, tensor, defined, "constant")
        kind = graph.types[tensor]
        if array.dtype != kind.dtype.carrier or tuple(array.shape) != kind.shape:
            raise GraphError(
                f"graph '{graph.name}': constant '{tensor}' holds {array.dtype}{list(array.shape)} "
                f"but its type says {kind.dtype.value}{list(kind.shape or ())}"
            )
    _verify_nodes(graph, defined)
    for tensor in graph.outputs:
        if tensor not in defined:
            raise GraphError(f"graph '{graph.name}': output '{tensor}' is computed by no node")
    for tensor, kind in graph.types.items():
        verify_type(f"graph '{graph.name}': tensor '{tensor}'", kind)


def _verify_nodes(graph: Body, defined: set[str]) -> None:
    names: set[str] = set()
    for node in graph.nodes:
        if not node.name or node.name in names:
            raise GraphError(f"graph '{graph.name}': two nodes are called '{node.name}'")
        names.add(node.name)
        _verify_reads(graph, node, defined)
        for tensor in node.outputs:
            if tensor:
                _define(graph, tensor, defined, node.label)
        if not any(node.outputs):
            raise GraphError(f"graph '{graph.name}': {node.label} has no output")


def _verify_reads(graph: Body, node: Node, defined: set[str]) -> None:
    reads = [tensor for tensor in node.inputs if tensor]
    for body in node.bodies():
        reads.extend(body.captures)
    for tensor in reads:
        if tensor not in defined:
            raise GraphError(f"graph '{graph.name}': {node.label} reads '{tensor}' which nothing before it defines")


def _define(graph: Body, tensor: str, defined: set[str], what: str) -> None:
    if not tensor:
        raise GraphError(f"graph '{graph.name}': a {what} has an empty name")
    if tensor in defined:
        raise GraphError(f"graph '{graph.name}': tensor '{tensor}' is defined twice, the second time by {what}")
    if tensor not in graph.types:
        raise GraphError(f"graph '{graph.name}': tensor '{tensor}' of {what} has no type")
    defined.add(tensor)


def verify_type(where: str, kind: TensorType) -> None:
    """Raise GraphError, with `where` in front, when no tensor can have this type."""
    if kind.shape is not None:
        if len(kind.shape) > MAX_RANK:
            raise GraphError(f"{where} has {len(kind.shape)} dimensions; at most {MAX_RANK} are allowed")
        for dim in kind.shape:
            if isinstance(dim, int) and not 0 <= dim <= MAX_DIM:
                raise GraphError(f"{where} has a dimension of {dim}; allowed are 0 to {MAX_DIM}")
    if kind.quant is not None:
        _verify_quantization(where, kind)


def _verify_quantization(where: str, kind: TensorType) -> None:
    quant = kind.quant
    assert quant is not None
    if not kind.dtype.is_integer:
        raise GraphError(f"{where} is quantised but stores {kind.dtype.value}")
    count = len(quant.scale)
    if count == 0 or len(quant.zero_point) != count:
        raise GraphError(f"{where} has {count} scales and {len(quant.zero_point)} zero points")
    if quant.axis is None:
        if count != 1:
            raise GraphError(f"{where} has {count} scales but no channel axis")
    else:
        if kind.shape is None or not 0 <= quant.axis < len(kind.shape):
            raise GraphError(f"{where} has channel axis {quant.axis} outside its rank")
        size = kind.shape[quant.axis]
        if isinstance(size, int) and size != count:
            raise GraphError(f"{where} has {count} scales for {size} channels")
    # This runs for every tensor of every candidate of a search.
    if not all(map(math.isfinite, quant.scale)) or min(quant.scale) <= 0:
        raise GraphError(f"{where} has a scale that is not a positive number")
    lowest, highest = kind.dtype.integer_range
    if min(quant.zero_point) < lowest or max(quant.zero_point) > highest:
        raise GraphError(f"{where} has a zero point outside {lowest}..{highest}")
    if kind.dtype in (DType.I32, DType.I64) and any(quant.zero_point):
        raise GraphError(f"{where} is a wide accumulator type with a zero point that is not 0")
