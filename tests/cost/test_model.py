"""The cost of plans: against the quantiser and the partitioner, and against sums by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail.backend.costs import Quality
from dovetail.backend.registry import find_target
from dovetail.cost import CostEntry, CostModel, CostTable, load_cost_table, make_cost_model
from dovetail.errors import CostError
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Override, Plan, find_units, parse_placement
from dovetail.quantize import Ranges, quantize
from dovetail.quantize.ranges import Range
from dovetail.testing.networks import Network, networks

LOW, WIDE, CPU = (parse_placement(text) for text in ("vsi:v853@i8pc", "vsi:v853@i16", "cpu@fp32"))


def _model(graph: Graph, *extra: CostTable) -> CostModel:
    return make_cost_model(graph, find_units(graph), [find_target("vsi:v853"), find_target("cpu")], extra)


def _ranges(graph: Graph) -> Ranges:
    return Ranges(
        graph.digest, "minmax", 1, {name: Range(-4.0, 4.0) for name, kind in graph.types.items() if kind.holds_reals}
    )


@settings(max_examples=120, deadline=None)
@given(networks(most=12), st.data())
def test_partitions_and_crossing_bytes_are_those_of_the_partitioned_graph(graph: Graph, data: st.DataObject) -> None:
    units = find_units(graph)
    overrides: dict[str, Override] = {}
    for unit in units.items:
        place = data.draw(st.sampled_from((LOW, WIDE, CPU)))
        overrides.update(dict.fromkeys(unit.nodes, Override(place, "drawn")))
    plan = Plan(graph.digest, LOW, overrides)
    low = find_target(LOW.target)
    npu = [node for node in graph.nodes if plan.placement(node.name) != CPU]
    assume(all(low.verdict(graph, node, plan.placement(node.name).precision).supported for node in npu))
    cost = _model(graph).plan_cost(plan)
    parts = partition(quantize(graph, plan, _ranges(graph)))
    assert cost.partition_count == len(parts.partitions)
    assert cost.latency_ns == pytest.approx(cost.compute_ns + cost.boundary_ns + cost.switch_ns)
    assert (cost.transfer_bytes == 0) == (len(parts.partitions) == 1)


def _chain() -> Graph:
    net = Network()
    x = net.conv(net.input("x", 1, 4, 8, 8), 8, 3)
    return net.graph(net.conv(net.op("Relu", x), 8, 3))


def test_sixteen_bits_cost_more_than_eight_and_a_boundary_between_them_is_priced() -> None:
    graph = _chain()
    model = _model(graph)
    first, second = find_units(graph).items
    low = model.plan_cost(Plan(graph.digest, LOW))
    wide = model.plan_cost(Plan(graph.digest, WIDE))
    mixed = model.plan_cost(Plan(graph.digest, LOW, dict.fromkeys(second.nodes, Override(WIDE, "x"))))
    assert low.compute_ns < mixed.compute_ns < wide.compute_ns
    assert len(mixed.boundaries) == len(low.boundaries) + 1
    assert mixed.compute_ns == pytest.approx(
        model.unit_figure(first, LOW).latency_ns + model.unit_figure(second, WIDE).latency_ns
    )
    inside = next(item for item in mixed.boundaries if item.tensor == first.nodes[-1].replace("n", "t"))
    assert (inside.transfer_bytes, inside.producer, inside.consumer) == (0, LOW, WIDE)


def test_memory_by_hand() -> None:
    graph = _chain()
    memory = _model(graph).plan_cost(Plan(graph.digest, LOW)).memory
    # Weights 8x4x3x3 and 8x8x3x3 at one byte, two biases of 8 x int32; activations 8x8x8 twice; in and out cross.
    assert memory.weights == {"vsi:v853": 8 * 4 * 9 + 8 * 8 * 9 + 2 * 8 * 4}
    assert memory.activations == {"vsi:v853": 2 * 8 * 8 * 8}
    assert memory.copies == 4 * 64 + 8 * 64


def test_a_measured_table_goes_before_the_roofline(tmp_path: Path) -> None:
    graph = _chain()
    name = find_units(graph).items[0].name
    table = CostTable("vsi:v853", "stop-watch", Quality.MEASURED, (CostEntry(name, Precision.I8PC, 123.0),))
    path = tmp_path / "costs.json"
    path.write_text(table.to_json())
    assert load_cost_table(path) == table
    rows = _model(graph, load_cost_table(path)).plan_cost(Plan(graph.digest, LOW)).units
    assert (rows[0].figure.latency_ns, rows[0].figure.source) == (123.0, "stop-watch")
    assert [row.figure.quality for row in rows] == [Quality.MEASURED, Quality.FITTED]


def test_a_target_without_facts_has_no_price() -> None:
    graph = _chain()
    with pytest.raises(CostError, match="nothing prices it at tpu@i8pc"):
        _model(graph).plan_cost(Plan(graph.digest, parse_placement("tpu@i8pc")))
