"""What it takes to bring tensors from one placement to another, on a CPU with round figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.backend.costs import Figure, Quality
from dovetail.backend.profiles.hosts import HOSTS, HostFacts
from dovetail.backend.registry import find_target
from dovetail.cost import BoundaryCost, CostModel, make_cost_model, units_of_plan
from dovetail.errors import CostError
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Plan, find_units, parse_placement
from dovetail.plan.units import Unit
from dovetail.testing.networks import Network

HOST = HostFacts(
    name="round",
    title="a round CPU",
    float_macs_per_s=1e9,
    byte_macs_per_s=4e9,
    elements_per_s=5e8,
    bytes_per_s=1e15,
    overhead_ns=1000.0,
    link_bytes_per_s=1e8,
    switch_ns=7000.0,
    source="made up",
)
"""An element takes 2 ns, an operator 1000 ns, a byte of transfer 10 ns; memory takes no time."""
CPU, CPU_I8 = parse_placement("cpu@fp32"), parse_placement("cpu@i8")
LOW, CHANNELS, WIDE = (parse_placement(f"vsi:v853@{name}") for name in ("u8", "i8pc", "i16"))
OTHER = parse_placement("vsi:a311d@u8")
SIZE = 4 * 8 * 8


def _chain() -> Graph:
    net = Network()
    made = net.op("Relu", net.conv(net.input("x", 1, 4, 8, 8), 4, 3))
    return net.graph(net.conv(made, 4, 3))


def _model(graph: Graph) -> CostModel:
    targets = [find_target(name) for name in ("cpu", "vsi:v853", "vsi:a311d")]
    return make_cost_model(graph, find_units(graph), targets, host=HOST)


def test_what_is_there_already_costs_nothing() -> None:
    model = _model(_chain())
    assert model.boundary("t1", LOW, LOW) is None
    # The same activations beside other weights.
    assert model.boundary("t1", CHANNELS, parse_placement("vsi:v853@i8")) is None


def test_a_conversion_within_a_part_is_its_own() -> None:
    model = _model(_chain())
    figure = model.fitted["vsi:v853"].conversion(SIZE, Precision.I16)
    assert figure is not None
    assert model.boundary("t1", LOW, WIDE) == BoundaryCost("t1", LOW, WIDE, 0, figure)
    assert figure.quality is Quality.FITTED
    assert figure.latency_ns > 0


def test_a_conversion_without_a_fitted_price_goes_by_the_roofline() -> None:
    model = replace(_model(_chain()), fitted={})
    figure = model.npus["vsi:v853"].conversion(SIZE, SIZE * (1 + 2))
    assert model.boundary("t1", LOW, WIDE) == BoundaryCost("t1", LOW, WIDE, 0, figure)
    assert figure.latency_ns > 0


def test_a_conversion_within_the_cpu_is_its_own() -> None:
    figure = Figure(SIZE * 2 + 1000, Quality.ROOFLINE, "made up")
    assert _model(_chain()).boundary("t1", CPU, CPU_I8) == BoundaryCost("t1", CPU, CPU_I8, 0, figure)


def test_between_cpu_and_npu_the_cpu_converts_and_the_narrow_format_crosses() -> None:
    model = _model(_chain())
    figure = Figure(SIZE * 2 + 1000 + SIZE * 10, Quality.ROOFLINE, "made up")
    assert model.boundary("t1", CPU, LOW) == BoundaryCost("t1", CPU, LOW, SIZE, figure)
    assert model.boundary("t1", LOW, CPU) == BoundaryCost("t1", LOW, CPU, SIZE, figure)
    wide = model.boundary("t1", CPU, WIDE)
    assert wide is not None
    assert (wide.transfer_bytes, wide.figure.latency_ns) == (2 * SIZE, SIZE * 2 + 1000 + 2 * SIZE * 10)


def test_what_is_in_the_same_format_only_crosses() -> None:
    figure = Figure(SIZE * 10, Quality.ROOFLINE, "made up")
    assert _model(_chain()).boundary("t1", LOW, OTHER) == BoundaryCost("t1", LOW, OTHER, SIZE, figure)


def test_between_two_parts_the_second_converts() -> None:
    model = _model(_chain())
    converting = model.fitted["vsi:a311d"].conversion(SIZE, Precision.U8)
    assert converting is not None
    found = model.boundary("t1", WIDE, OTHER)
    assert found is not None
    assert found.transfer_bytes == 2 * SIZE
    assert found.figure.latency_ns == pytest.approx(converting.latency_ns + 2 * SIZE * 10)
    assert found.figure.source == f"{converting.source}; made up"


def test_a_tensor_that_holds_no_reals_is_never_converted() -> None:
    net = Network()
    x = net.input("x", 1, 4)
    net.types["s"] = TensorType(DType.I64, (2,))
    net.nodes.append(Node("shape", "Shape", (x,), ("s",)))
    model = _model(net.graph("s"))
    assert model.boundary("s", LOW, WIDE) is None
    figure = Figure(16 * 10, Quality.ROOFLINE, "made up")
    assert model.boundary("s", CPU, LOW) == BoundaryCost("s", CPU, LOW, 16, figure)


def test_a_plan_is_priced_piece_by_piece() -> None:
    graph = _chain()
    model = _model(graph)
    first, second = find_units(graph).items
    plan = Plan(graph.digest, LOW, {"n2": Override(CPU, "test")})
    cost = model.plan_cost(plan)
    assert cost.units == (model.unit_cost(first, LOW), model.unit_cost(second, CPU))
    # In from the world, across to the CPU; the output is on the CPU in float already.
    assert cost.boundaries == (model.boundary("x", CPU, LOW), model.boundary("t1", LOW, CPU))
    assert (cost.partition_count, cost.switch) == (3, Figure(7000.0, Quality.ROOFLINE, "made up"))
    assert cost.switch_ns == 14_000.0
    weights = 4 * 4 * 9
    assert cost.memory.weights == {"vsi:v853": weights + 4 * 4, "cpu": 4 * (weights + 4)}
    assert cost.memory.copies == cost.transfer_bytes == 2 * SIZE


def test_a_tensor_read_at_one_placement_twice_is_brought_once() -> None:
    net = Network()
    made = net.conv(net.input("x", 1, 4, 8, 8), 4, 3)
    graph = net.graph(net.op("Sigmoid", made), net.op("Tanh", made), net.op("Sin", made))
    plan = Plan(graph.digest, LOW, {"n1": Override(CPU, ""), "n2": Override(CPU, ""), "n3": Override(CPU_I8, "")})
    inside = [item for item in _model(graph).plan_cost(plan).boundaries if item.tensor == made]
    assert [(item.producer, item.consumer) for item in inside] == [(LOW, CPU), (LOW, CPU_I8)]


def test_a_units_cost_tells_its_work_and_traffic() -> None:
    graph = _chain()
    model = _model(graph)
    unit = find_units(graph).items[0]
    cost = model.unit_cost(unit, WIDE)
    assert (cost.unit, cost.nodes, cost.op, cost.placement) == ("n0", ("n0", "n1"), "Conv+Relu", WIDE)
    assert cost.macs == 4 * 64 * 4 * 9
    assert cost.moved_bytes == 2 * SIZE + (2 * 4 * 4 * 9 + 8 * 4) + 2 * SIZE
    assert cost.figure == model.unit_figure(unit, WIDE)
    assert model.unit_cost(unit, WIDE) is cost
    assert model.unit_cost(unit, LOW).placement == LOW


def test_a_unit_that_is_split_has_no_price_and_its_nodes_have() -> None:
    graph = _chain()
    model = _model(graph)
    plan = Plan(graph.digest, LOW, {"n1": Override(CPU, "test")})
    with pytest.raises(CostError, match="unit 'n0' is split between cpu@fp32, vsi:v853@u8"):
        model.plan_cost(plan)
    units = units_of_plan(find_units(graph), plan)
    assert units.items == (Unit("n0", ("n0",)), Unit("n1", ("n1",)), Unit("n2", ("n2",)))
    assert units_of_plan(find_units(graph), Plan(graph.digest, LOW)) == find_units(graph)
    alone = make_cost_model(graph, units, [find_target("vsi:v853")], host=HOST)
    assert len(alone.plan_cost(plan).units) == 3


def test_the_cpu_is_the_one_beside_the_first_npu() -> None:
    graph = _chain()
    units = find_units(graph)
    for names, host in (
        (("cpu", "vsi:a311d", "vsi:v853"), "cortex-a73x4"),
        (("vsi:v853",), "cortex-a7"),
        (("cpu",), "x86"),
        ((), "x86"),
    ):
        model = make_cost_model(graph, units, [find_target(name) for name in names])
        assert model.host.facts == HOSTS[host], names
        assert set(model.npus) == {name for name in names if name != "cpu"}


def test_what_nothing_prices_is_named() -> None:
    graph = _chain()
    with pytest.raises(CostError, match=r"node 'n0' \(Conv\): nothing prices it at tpu@u8"):
        _model(graph).unit_figure(find_units(graph).items[0], parse_placement("tpu@u8"))
