"""Smaller cases that still show what a larger one showed: delta debugging over nodes, then over sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from dovetail.backends.reference import run_graph
from dovetail.bisection import smallest
from dovetail.errors import DovetailError
from dovetail.ir import AnyArray, Graph, TensorType
from dovetail.testing.wild.case import WildCase

Shows = Callable[[WildCase], bool]


def shrunk(case: WildCase, shows: Shows, most: int = 60) -> WildCase:
    """Return the smallest case that was found to show the same, asking at most so many times."""
    left = most

    def asked(smaller: WildCase) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and shows(smaller)

    return _with_smaller_sizes(_with_fewer_nodes(case, asked), asked)


def _with_fewer_nodes(case: WildCase, shows: Shows) -> WildCase:
    """Return a case from which no node can be left out."""
    names = smallest([node.name for node in case.graph.nodes], lambda some: shows(case.part(some)))
    return case if len(names) == len(case.graph.nodes) else case.part(names)


def _with_smaller_sizes(case: WildCase, shows: Shows) -> WildCase:
    again = True
    while again:
        again = False
        for smaller in _smaller(case):
            if shows(smaller):
                case, again = smaller, True
                break
    return case


def _smaller(case: WildCase) -> Iterator[WildCase]:
    """Yield the case with one size of its inputs replaced everywhere, the largest sizes first."""
    sizes = {size for name in case.graph.inputs for size in case.graph.types[name].static_shape or ()}
    for size in sorted(sizes - {1}, reverse=True):
        for fewer in dict.fromkeys((1, size // 2, size - 1)):
            for attributes in (False, True):
                graph = _resized(case, (size, fewer), attributes=attributes)
                if graph is not None:
                    yield replace(case, graph=graph)


def _resized(case: WildCase, sizes: tuple[int, int], *, attributes: bool) -> Graph | None:
    """Return the graph with a size replaced in every shape, constant and perhaps attribute; None where it is broken."""
    graph, (old, new) = case.graph, sizes

    def narrowed(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new if size == old else size for size in shape)

    def cut(value: AnyArray) -> AnyArray:
        kept = value[tuple(slice(size) for size in narrowed(value.shape))]
        return np.where(kept == old, new, kept) if value.dtype.kind == "i" else kept

    def swapped(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(swapped(item) for item in value)
        return new if isinstance(value, int) and value == old else value

    constants = {name: np.ascontiguousarray(cut(value)) for name, value in graph.constants.items()}
    types = {name: TensorType(kind.dtype, narrowed(kind.static_shape or ())) for name, kind in graph.types.items()}
    types |= {name: TensorType(types[name].dtype, tuple(value.shape)) for name, value in constants.items()}
    nodes = graph.nodes
    if attributes:
        swaps = ({name: swapped(value) for name, value in node.attributes.items()} for node in nodes)
        nodes = tuple(replace(node, attributes=found) for node, found in zip(nodes, swaps, strict=True))
    computed = [name for node in nodes for name in node.outputs if name]
    try:
        rough = replace(graph, nodes=nodes, types=types, constants=constants)
        feeds = {name: np.zeros(types[name].static_shape or (), types[name].dtype.carrier) for name in graph.inputs}
        values = run_graph(rough.evolve(outputs=tuple(computed)), feeds)
    except (DovetailError, ValueError, IndexError, TypeError):
        return None
    shapes = {name: TensorType(types[name].dtype, tuple(values[name].shape)) for name in computed}
    return rough.evolve(types={**types, **shapes})
