"""Where a graph is cut: into pieces that take as long, where least is alive, and never so that a bit changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.ir import DType, Graph, Quantization, TensorType
from dovetail.search.cuts import cut_points, sections
from dovetail.search.policy import CutPolicy
from dovetail.testing.networks import Network


def _chain(count: int) -> Network:
    """Return a chain of as many equal operators; its last tensor is named `last`."""
    net = Network()
    last = net.input("x", 1, 100)
    for _ in range(count):
        last = net.op("Tanh", last)
    return net


def _graph(count: int) -> Graph:
    net = _chain(count)
    return net.graph(net.nodes[-1].outputs[0])


@pytest.mark.parametrize(
    ("pieces", "nodes", "ends"),
    [
        (1, 1, ()),
        (2, 1, ("n5",)),
        (3, 1, ("n3", "n7")),
        (4, 1, ("n2", "n5", "n8")),
        (6, 4, ("n3", "n7")),
        (6, 6, ("n5",)),
        (6, 7, ()),
    ],
)
def test_equal_nodes_are_shared_out_equally(pieces: int, nodes: int, ends: tuple[str, ...]) -> None:
    assert cut_points(_graph(12), CutPolicy(pieces=pieces, nodes=nodes, leeway=0.0)) == ends


@pytest.mark.parametrize(
    ("small", "leeway", "end"),
    [
        (3, 0.1, "n5"),
        (3, 0.35, "n3"),
        (3, 1.0, "n3"),
        (8, 0.35, "n3"),
        (7, 0.35, "n7"),
        (10, 1.0, "n10"),
        (11, 1.0, "n0"),
    ],
)
def test_a_cut_moves_to_where_less_is_alive(small: int, leeway: float, end: str) -> None:
    """One tensor is a little smaller, and what elements take is nothing beside the start of nodes."""
    net = Network()
    last = net.input("x", 1, 100)
    for number in range(12):
        last = net.op("Slice" if number == small else "Tanh", last, shape=(1, 99 if number == small else 100))
    policy = CutPolicy(pieces=2, nodes=1, leeway=leeway, node_elements=10**9)
    assert cut_points(net.graph(last), policy) == (end,)


@pytest.mark.parametrize(("node_elements", "ends"), [(0, ()), (10**9, ("n3",))])
def test_effort_is_that_of_the_elements_and_of_the_start_of_a_node(node_elements: int, ends: tuple[str, ...]) -> None:
    """The first node touches far more than the others together: without what each start takes no half begins there."""
    net = Network()
    last = net.op("Slice", net.input("x", 1, 100_000), shape=(1, 2))
    for _ in range(7):
        last = net.op("Tanh", last)
    policy = CutPolicy(pieces=2, nodes=1, leeway=0.05, node_elements=node_elements)
    assert cut_points(net.graph(last), policy) == ends


@pytest.mark.parametrize(("multiply", "ends"), [(1, ()), (16, ("n2",)), (10**9, ("n3",))])
def test_multiplications_count_as_so_many_elements(multiply: int, ends: tuple[str, ...]) -> None:
    """The convolution has 9216 of them."""
    net = Network()
    last = net.conv(net.input("x", 1, 4, 8, 8), 4, 3)
    for _ in range(7):
        last = net.op("Tanh", last)
    policy = CutPolicy(pieces=2, nodes=1, leeway=0.1, macs_per_element=multiply, node_elements=0)
    assert cut_points(net.graph(last), policy) == ends


def test_a_graph_whose_outputs_are_its_inputs_or_constants_stays_whole() -> None:
    net = _chain(12)
    last = net.nodes[-1].outputs[0]
    for output in ("x", net.constant(1.0)):
        graph = net.graph(last, output)
        assert cut_points(graph, CutPolicy(nodes=1)) == ()
        (whole,) = sections(graph, ())
        assert whole.nodes == graph.nodes


@pytest.mark.parametrize("ends", [(), ("n0",), ("n2", "n5", "n8"), tuple(f"n{index}" for index in range(12))])
def test_sections_hold_every_node_once_and_what_crosses_is_what_is_read_later(ends: tuple[str, ...]) -> None:
    graph = _graph(12)
    parts = sections(graph, ends)
    assert tuple(node for part in parts for node in part.nodes) == graph.nodes
    assert len(parts) == len({*ends, "n11"})
    assert [part.crossing for part in parts] == [part.nodes[-1].outputs for part in parts]


def test_what_skips_a_section_crosses_both_of_its_cuts() -> None:
    net = Network()
    first = net.op("Tanh", net.input("x", 1, 4))
    second = net.op("Tanh", net.op("Tanh", first))
    graph = net.graph(net.op("Max", first, second), first)
    parts = sections(graph, ("n0", "n2"))
    assert [part.crossing for part in parts] == [(first,), (first, second), (first, *graph.nodes[-1].outputs)]


def test_no_cut_crosses_bfloat16_but_the_last_section_ends_with_the_graph() -> None:
    net = _chain(4)
    names = [node.outputs[0] for node in net.nodes]
    for name in (names[1], names[3]):
        net.types[name] = TensorType(DType.BF16, (1, 100))
    parts = sections(net.graph(names[3]), ("n0", "n1", "n2"))
    assert [[node.name for node in part.nodes] for part in parts] == [["n0"], ["n1", "n2"], ["n3"]]


@pytest.mark.parametrize(
    ("first", "operator", "second", "is_cut"),
    [
        ("Conv", "Mul", "constant", False),
        ("MatMul", "Add", "constant", False),
        ("Tanh", "Mul", "constant", True),
        ("Conv", "Max", "constant", True),
        ("Conv", "Add", "input", False),
        ("Conv", "Add", "tensor", False),
        ("MatMul", "Add", "tensor", True),
        ("Tanh", "Add", "tensor", True),
    ],
)
def test_what_is_computed_in_one_step_is_not_cut_apart(first: str, operator: str, second: str, is_cut: bool) -> None:
    """Constants are folded into a product; a sum of tensors begins a convolution, and nothing else."""
    net = Network()
    image = net.input("x", 1, 4, 8, 8)
    other = {"constant": net.constant(2.0), "input": image, "tensor": net.op("Tanh", image)}[second]
    before = len(net.nodes)
    product = (
        net.conv(image, 4, 3) if first == "Conv" else net.op(first, image, *[net.uniform(8, 8)] * (first == "MatMul"))
    )
    graph = net.graph(net.op("Tanh", net.op(operator, product, other)))
    parts = sections(graph, tuple(node.name for node in graph.nodes[before:]))
    assert len(parts[0].nodes) == before + (1 if is_cut else 2)


def test_what_is_rounded_to_integers_is_not_computed_in_one_step() -> None:
    net = Network()
    product = net.conv(net.input("x", 1, 4, 8, 8), 4, 3)
    net.types[product] = TensorType(DType.I8, (1, 4, 8, 8), Quantization((0.1,), (0,)))
    graph = net.graph(net.op("Mul", product, net.constant(2.0)))
    assert len(sections(graph, ("n0",))) == 2


def test_what_is_read_nowhere_does_not_cross() -> None:
    net = _chain(3)
    first = net.nodes[0]
    net.nodes[0] = replace(first, outputs=(*first.outputs, "unused", ""))
    net.types["unused"] = net.types[first.outputs[0]]
    parts = sections(net.graph(net.nodes[-1].outputs[0]), ("n0", "n1"))
    assert [part.crossing for part in parts] == [node.outputs[:1] for node in net.nodes]
