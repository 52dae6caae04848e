"""Predictions of partitions: their sum is the plan's, they survive a bundle on disk, and what has no price has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.backend.costs import Quality
from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import find_target
from dovetail.bundle import Bundle, load_bundle, save_bundle
from dovetail.compile import CompileRequest, compile_model
from dovetail.cost import CostEntry, CostTable, make_cost_model, predict_partitions
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Override, Plan, find_units, parse_placement
from dovetail.quantize import Ranges, quantize
from dovetail.quantize.ranges import Range
from dovetail.testing.networks import Network

LOW, CPU, NULL = (parse_placement(text) for text in ("vsi:v853@i8pc", "cpu@fp32", "null@fp32"))
ONE = CompileRequest(CompileOptions(threads=1))


def _graph() -> Graph:
    net = Network()
    made = net.op("Relu", net.conv(net.input("x", 1, 2, 8, 8), 4, 3))
    return net.graph(net.conv(net.op("Softmax", made, axis=1), 4))


def _bundle(graph: Graph, plan: Plan) -> Bundle:
    ranges = {name: Range(-4.0, 4.0) for name, kind in graph.types.items() if kind.holds_reals}
    return compile_model(partition(quantize(graph, plan, Ranges(graph.digest, "minmax", 1, ranges))), ONE)


def test_the_sum_is_that_of_the_plan(tmp_path: Path) -> None:
    graph = _graph()
    plan = Plan(graph.digest, LOW, {"n2": Override(CPU, "test")})
    bundle = predict_partitions(_bundle(graph, plan), graph)
    units = find_units(graph)
    cost = make_cost_model(graph, units, [find_target("vsi:v853"), find_target("cpu")]).plan_cost(plan)
    assert sum(part.units or 0 for part in bundle.partitions) == len(units.items) == 3
    assert sum(part.predicted_ns or 0 for part in bundle.partitions) == pytest.approx(cost.compute_ns)
    conversions = [part for part in bundle.partitions if part.units == 0]
    assert all(part.predicted_ns is None for part in conversions)
    assert all(part.predicted_by for part in bundle.partitions if part.units)
    save_bundle(bundle, tmp_path / "b")
    assert load_bundle(tmp_path / "b") == bundle


def test_a_measured_table_comes_first() -> None:
    graph = _graph()
    entries = tuple(CostEntry(unit.nodes[0], Precision.FP32, 1000.0) for unit in find_units(graph).items)
    table = CostTable("cpu", "stop-watch", Quality.MEASURED, entries)
    (part,) = predict_partitions(_bundle(graph, Plan(graph.digest, CPU)), graph, [table]).partitions
    assert (part.units, part.predicted_ns, part.predicted_by) == (3, 3000.0, "stop-watch")


def test_what_nothing_prices_has_no_prediction() -> None:
    graph = _graph()
    bundle = predict_partitions(_bundle(graph, Plan(graph.digest, NULL)), graph)
    assert [(part.units, part.predicted_ns, part.predicted_by) for part in bundle.partitions] == [(3, None, "")]
