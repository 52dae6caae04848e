"""Parts of graphs by content: found under any name, and not where anything else differs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.patterns import PartPattern, label_of
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.partition.schedule import part_of_graph
from dovetail.testing.networks import networks


def renamed(graph: Graph, mark: str) -> Graph:
    """Return the graph with a mark before every name."""

    def marked(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(mark + name if name else "" for name in names)

    nodes = tuple(
        Node(mark + node.name, node.op, marked(node.inputs), marked(node.outputs), node.attributes, node.domain)
        for node in graph.nodes
    )
    return Graph(
        mark,
        nodes,
        marked(graph.inputs),
        marked(graph.outputs),
        {mark + name: kind for name, kind in graph.types.items()},
        {mark + name: value for name, value in graph.constants.items()},
    )


@given(networks(), st.data())
def test_a_part_is_found_in_the_whole_under_other_names(graph: Graph, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(graph.nodes) - 1))
    stop = data.draw(st.integers(start + 1, min(len(graph.nodes), start + 6)))
    part = part_of_graph(graph, graph.nodes[start:stop])
    pattern = PartPattern.of(renamed(part, "p/"))
    assert pattern is not None
    whole = renamed(graph, "w/")
    found = pattern.find(whole)
    assert len(found) == stop - start
    again = PartPattern.of(part_of_graph(whole, [whole.node(name) for name in found]))
    assert again == pattern


def pair(scale: float = 0.5, axis: int = 1, value: float = 1.0, same: bool = False) -> Graph:
    """Return a sum of a constant, and a Concat of the sum with an input."""
    quant = Quantization((scale,), (3,))
    kinds = {"x": (1, 2), "y": (1, 2), "s": (1, 2), "o": (1, 4) if axis == 1 else (2, 2)}
    types = {name: TensorType(DType.U8, shape, quant) for name, shape in kinds.items()}
    types["k"] = TensorType(DType.U8, (1, 2), quant)
    nodes = (
        Node("sum", "Add", ("x", "k"), ("s",)),
        Node("join", "Concat", ("s", "x" if same else "y"), ("o",), {"axis": axis}),
    )
    inputs = ("x",) if same else ("x", "y")
    types = {name: kind for name, kind in types.items() if name != "y" or not same}
    return Graph("pair", nodes, inputs, ("o",), types, {"k": np.full((1, 2), value, np.uint8)})


@pytest.mark.parametrize(
    "other", [pair(scale=0.25), pair(axis=0), pair(value=2.0), pair(same=True)], ids=["scale", "axis", "value", "same"]
)
def test_another_scale_attribute_constant_or_wiring_is_another_part(other: Graph) -> None:
    pattern = PartPattern.of(pair())
    assert pattern is not None
    assert pattern.find(pair()) == ("sum", "join")
    assert pattern.find(other) == ()


def test_a_fact_of_the_models_framework_is_no_content() -> None:
    graph = pair()
    marked = replace(graph.nodes[1], attributes={**graph.nodes[1].attributes, "tflite.version": 2})
    assert label_of(graph.evolve(nodes=(graph.nodes[0], marked)), marked) == label_of(graph, graph.nodes[1])


def test_equal_nodes_without_number_end_the_search() -> None:
    kind = TensorType(DType.F32, (1, 2))
    chain = [Node(f"n{index}", "Relu", (f"t{index}",), (f"t{index + 1}",)) for index in range(400)]
    types = {f"t{index}": kind for index in range(401)}
    whole = Graph("chain", tuple(chain), ("t0",), ("t400",), types)
    pattern = PartPattern.of(part_of_graph(whole, chain[:5]))
    assert pattern is not None
    assert len(pattern.find(whole)) == 5
    far = PartPattern.of(part_of_graph(whole, [*chain[0:40:2]]))
    assert far is not None
    assert len(far.find(whole)) in (0, 20)
