"""Nodes that the vendor computes together: every one has its share, and nothing is lost or counted twice."""

from __future__ import annotations

import pytest

from dovetail.backend.modelled import OperatorCycles
from dovetail.backend.target import Engine
from dovetail.cost.joined import share_joined
from dovetail.ir import Graph
from dovetail.testing.networks import Network


def _record(node: str, cycles: int, operation: str = "convolution", engine: Engine = Engine.NN) -> OperatorCycles:
    return OperatorCycles(node, operation, engine, cycles, 7 * cycles, 3 * cycles, 1, "", "", "")


def _shares(graph: Graph, *records: OperatorCycles) -> dict[str, int]:
    found = share_joined(graph, {record.node: [record] for record in records})
    return {node: sum(item.cycles for item in items) for node, items in found.items()}


def _residual() -> Graph:
    """Return a residual block: `n0` and its clamp `n1`, `n2`, their sum `n3` and its clamp `n4`; maps of 4 x 64."""
    net = Network()
    first = net.op("Relu", net.conv(net.input("x", 1, 4, 8, 8), 4, 3))
    return net.graph(net.op("Relu", net.op("Add", first, net.conv(first, 4))))


def test_a_convolution_that_is_joined_with_a_sum_has_its_own_time() -> None:
    shares = _shares(_residual(), _record("n1", 500), _record("n4", 1000, "convolution_add"))
    # Floats of 4 bytes: input and result 256 each, 16 weights and 4 of the bias; the other operand 256.
    own, other = 256 + 16 + 4 + 256, 256
    assert shares == {"n0": 500, "n1": 0, "n2": round(1000 * own / (own + other)), "n3": shares["n3"], "n4": 0}
    assert shares["n2"] + shares["n3"] == 1000


def test_bytes_are_shared_as_cycles_are() -> None:
    found = share_joined(_residual(), {"n1": [_record("n1", 11)], "n4": [_record("n4", 1001)]})
    items = [item for name in ("n2", "n3", "n4") for item in found[name]]
    assert (sum(item.read_bytes for item in items), sum(item.write_bytes for item in items)) == (7007, 3003)


def test_a_sum_of_its_own_has_all_of_its_clamp() -> None:
    shares = _shares(_residual(), _record("n1", 500), _record("n2", 300), _record("n4", 40))
    assert (shares["n2"], shares["n3"], shares["n4"]) == (300, 40, 0)


def test_a_pooling_joined_behind_is_free() -> None:
    net = Network()
    made = net.conv(net.input("x", 1, 4, 8, 8), 4, 3)
    graph = net.graph(net.op("MaxPool", made, shape=(1, 4, 4, 4), kernel_shape=(2, 2), strides=(2, 2)))
    assert _shares(graph, _record("n1", 90)) == {"n0": 90, "n1": 0}


@pytest.mark.parametrize("record", [_record("n4", 40, "activation", Engine.TP), _record("n4", 40, engine=Engine.SH)])
def test_other_engines_join_nothing(record: OperatorCycles) -> None:
    assert _shares(_residual(), _record("n1", 5), _record("n2", 3), record) == {"n0": 5, "n1": 0, "n2": 3, "n4": 40}


def test_a_gate_before_a_convolution_is_not_part_of_it() -> None:
    net = Network()
    x = net.input("x", 1, 4, 8, 8)
    graph = net.graph(net.conv(net.op("Mul", x, net.op("Sigmoid", x)), 4))
    assert _shares(graph, _record("n2", 60)) == {"n2": 60}
