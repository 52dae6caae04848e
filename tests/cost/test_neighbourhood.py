"""Units among their neighbours, and when two of them are taken for the same."""

from __future__ import annotations

from dovetail.cost.neighbourhood import Neighbourhood, neighbourhood
from dovetail.ir import Graph, Node
from dovetail.plan import find_units
from dovetail.testing.networks import Network


def _chain(seed: int = 0, channels: int = 4, rate: float = 0.1) -> Graph:
    """Return five convolutions with leaky activations between them."""
    net = Network(seed)
    tensor = net.input("x", 1, channels, 8, 8)
    for _ in range(5):
        tensor = net.op("LeakyRelu", net.conv(tensor, channels, 3), alpha=rate)
    return net.graph(tensor)


def _around(graph: Graph, index: int, refused: str = "") -> Neighbourhood:
    units = find_units(graph)

    def runs(node: Node) -> bool:
        return node.name != refused

    return neighbourhood(graph, units.items[index : index + 1], units, runs)


def test_a_unit_has_what_it_reads_and_what_reads_it_around() -> None:
    found = _around(_chain(), 4)
    assert [unit.name for unit in found.units] == ["n4"]
    assert [node.name for node in found.graph.nodes] == ["n3", "n4", "n5"]
    assert (len(found.graph.inputs), len(found.graph.outputs)) == (1, 1)


def test_neighbours_that_do_not_run_are_left_out_and_so_are_units() -> None:
    assert [node.name for node in _around(_chain(), 4, "n5").graph.nodes] == ["n3", "n4"]
    assert _around(_chain(), 4, "n4").units == ()


def test_equal_blocks_are_one_question_whatever_their_names_and_weights() -> None:
    graph = _chain()
    assert _around(graph, 2).signature == _around(graph, 4).signature == _around(_chain(seed=7), 2).signature
    assert _around(graph, 2).signature != _around(graph, 3).signature


def test_shapes_attributes_and_places_in_the_graph_make_a_difference() -> None:
    others = [_around(_chain(channels=5), 2), _around(_chain(rate=0.2), 2), _around(_chain(), 0), _around(_chain(), 9)]
    assert len({_around(_chain(), 2).signature, *(other.signature for other in others)}) == 5
