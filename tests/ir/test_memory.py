"""Memory of a graph: what is alive at once, against the same thing computed step by step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.memory import GraphMemory, graph_memory


def network(sizes: list[int], reads: list[list[int]], outputs: int) -> Graph:
    """Return a graph whose node `i` makes `t{i+1}` of some tensors before it."""
    names = [f"t{number}" for number in range(len(sizes))]
    types = {name: TensorType(DType.F32, (size,)) for name, size in zip(names, sizes, strict=True)}
    types["w"] = TensorType(DType.I8, (7,))
    nodes = tuple(
        Node(f"n{index}", "Concat", tuple(names[one % (index + 1)] for one in wanted), (names[index + 1],))
        for index, wanted in enumerate(reads)
    )
    read = {name for node in nodes for name in node.inputs}
    made = [name for name in names[1:] if name not in read] or [names[-1]]
    return Graph("g", nodes, ("t0",), tuple(made[:outputs] or made), types, {"w": np.zeros(7, np.int8)})


@given(st.data())
def test_it_is_what_is_read_later_or_made_now(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=count + 1, max_size=count + 1))
    reads = data.draw(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=3), min_size=count, max_size=count))
    graph = network(sizes, reads, data.draw(st.integers(1, 3)))
    most = 4 * sizes[0]
    for index in range(count):
        later = {name for node in graph.nodes[index:] for name in node.inputs} | set(graph.outputs)
        known = {"t0", *(name for node in graph.nodes[:index] for name in node.outputs)}
        alive = (later & known) | set(graph.nodes[index].outputs)
        most = max(most, sum(graph.types[name].size_bytes() or 0 for name in alive))
    assert graph_memory(graph) == GraphMemory(7, most)
