"""Inputs that leave open what a board needs fixed: shapes, and numbers that decide which branch of an If runs.

Boards take fixed shapes, and what nodes compute and take is known for fixed ones only. The first dimension is the
batch, and may be open.
"""

from __future__ import annotations

from dovetail.errors import LoadError
from dovetail.ir.graph import Graph
from dovetail.ir.types import Dim


def open_inputs(graph: Graph) -> dict[str, tuple[Dim, ...]]:
    """Return the inputs that leave more than the batch open, with their shapes."""
    shapes = {name: graph.types[name].shape or () for name in graph.inputs}
    return {name: shape for name, shape in shapes.items() if any(not isinstance(size, int) for size in shape[1:])}


def deciding_inputs(graph: Graph) -> dict[str, str]:
    """Return the inputs of one number that alone decide an If, such as a sampling rate, with its node's name."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        names = _sources(graph, node.inputs[0]) if node.op == "If" and not node.domain else set[str]()
        if names and all(graph.types[name].static_shape in ((), (1,)) for name in names):
            found.update(dict.fromkeys(sorted(names), node.name))
    return found


def _sources(graph: Graph, tensor: str) -> set[str]:
    """Return the inputs of the graph that a tensor is made of."""
    found, seen, waiting = set[str](), set[str](), [tensor]
    while waiting:
        name = waiting.pop()
        if name in seen or not name:
            continue
        seen.add(name)
        node = graph.producers.get(name)
        if node is not None:
            waiting.extend(node.inputs)
        elif name in graph.inputs:
            found.add(name)
    return found


def check_fixed(graph: Graph, what: str) -> None:
    """Raise LoadError where an input leaves more than the batch open; `what` cannot be known then."""
    found = open_inputs(graph)
    if found:
        name, shape = next(iter(found.items()))
        raise LoadError(
            f"input '{name}' of '{graph.name}' is {spelt_shape(shape)}: with an open shape {what}.",
            hint=f"Fix it, with numbers for the names: {fixed_text(name, shape)}.",
            option="shape",
        )


def fixed_text(name: str, shape: tuple[Dim, ...]) -> str:
    """Return the shape that fixes an input, with names where numbers have to be: `x=1,3,height,width`."""
    first = shape[0] if isinstance(shape[0], int) else 1
    return f"{name}={spelt_shape((first, *shape[1:]), ',')}"


def spelt_shape(shape: tuple[Dim, ...], between: str = "x") -> str:
    """Return a shape as people write it."""
    return between.join("?" if size is None else str(size) for size in shape)
