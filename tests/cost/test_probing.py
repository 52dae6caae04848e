"""Prices that a vendor's model gives while a search waits; a plug-in of the tests is the vendor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import work

from dovetail.backend.costs import Quality
from dovetail.backend.modelled import BoardSettings, ModelledGraph, OperatorCycles
from dovetail.backend.registry import find_target
from dovetail.backend.target import Engine, Target
from dovetail.cost import CostModel, ProbedPrices, ProbeOptions, make_cost_model, probe_units
from dovetail.errors import CompileError, CompileFailure
from dovetail.ir import Graph
from dovetail.plan import find_units, parse_placement
from dovetail.testing.networks import Network

U8, I16, CPU = (parse_placement(text) for text in ("clock:one@u8", "clock:one@i16", "cpu@fp32"))

Model = Callable[[Graph, Target, BoardSettings], ModelledGraph]


@pytest.fixture(scope="module", autouse=True)
def _installed(install: Callable[[str], None]) -> None:
    install("clockback")


class Vendor:
    """A model that says 1000 cycles of every convolution and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.refuses_above = 1_000_000
        self.is_killed = False
        self.open = threading.Event()
        self.open.set()

    def __call__(self, graph: Graph, target: Target, board: BoardSettings) -> ModelledGraph:
        self.open.wait()
        self.asked.append(len(graph.nodes))
        if self.is_killed:
            raise CompileError("the vendor's compiler is killed.", failure=CompileFailure.KILLED)
        if len(graph.nodes) > self.refuses_above:
            raise CompileError("the vendor's compiler dies.")
        rows = [node.name for node in graph.nodes if node.op == "Conv"]
        records = tuple(OperatorCycles(name, "convolution", Engine.NN, 1000, 0, 0, 1, "", "", "") for name in rows)
        return ModelledGraph(target.name, 500.0, 3.5, records, 0, "7.1", {})


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    import clockback

    found = Vendor()
    monkeypatch.setattr(clockback, "_model", found)
    yield found
    found.open.set()


def _model(length: int = 3) -> CostModel:
    net = Network()
    tensor = net.input("x", 1, 2, 8, 8)
    for _ in range(length):
        tensor = net.conv(tensor, 2, 3)
    graph = net.graph(tensor)
    return make_cost_model(graph, find_units(graph), [find_target("clock:one")])


def _latencies(prices: ProbedPrices, model: CostModel, place: str = "clock:one@u8") -> list[float | None]:
    placement = parse_placement(place)
    figures = [
        prices.latency(model.graph, [model.graph.node(unit.nodes[0])], placement.target, placement.precision)
        for unit in model.units.items
    ]
    return [None if figure is None else figure.latency_ns for figure in figures]


def test_every_unit_has_the_vendors_price_and_says_so(vendor: Vendor, tmp_path: Path) -> None:
    model = _model()
    prices = probe_units(model, [U8, I16, CPU, U8], ProbeOptions(folder=tmp_path))
    # 1000 cycles at 500 MHz; the CPU has no such model.
    assert _latencies(prices, model) == _latencies(prices, model, "clock:one@i16") == [2000.0] * 3
    assert _latencies(prices, model, "cpu@fp32") == [None] * 3
    assert len(vendor.asked) == 2
    again = make_cost_model(model.graph, model.units, [find_target("clock:one")], [prices])
    figure = again.unit_figure(again.units.items[0], U8)
    assert (figure.latency_ns, figure.quality) == (2000.0, Quality.MODELLED)
    assert "7.1" in figure.source


def test_answers_are_kept_by_content_and_by_the_vendors_version(
    vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import clockback

    options = ProbeOptions(folder=tmp_path)
    probe_units(_model(), [U8], options)
    assert _latencies(probe_units(_model(), [U8], options), _model()) == [2000.0] * 3
    assert len(vendor.asked) == 1
    probe_units(_model(4), [U8], options)
    assert len(vendor.asked) == 2
    monkeypatch.setattr(clockback.backend, "version", "1.1")
    probe_units(_model(), [U8], options)
    assert len(vendor.asked) == 3


def test_where_the_whole_is_refused_pieces_are_asked_about(vendor: Vendor, tmp_path: Path) -> None:
    vendor.refuses_above = 20
    model = _model(40)
    prices = probe_units(model, [U8], ProbeOptions(folder=tmp_path))
    assert _latencies(prices, model) == [2000.0] * 40
    # Pieces of sixteen with a neighbour on either side, after the whole.
    assert (vendor.asked[0], sorted(vendor.asked[1:])) == (40, [9, 17, 18])


def test_refusals_are_kept_too(vendor: Vendor, tmp_path: Path) -> None:
    vendor.refuses_above = 0
    for _ in range(2):
        assert _latencies(probe_units(_model(), [U8], ProbeOptions(folder=tmp_path)), _model()) == [None] * 3
    # The whole and its only piece are one question.
    assert vendor.asked == [3]


def test_a_compiler_that_was_killed_has_refused_nothing(vendor: Vendor, tmp_path: Path) -> None:
    vendor.is_killed = True
    assert _latencies(probe_units(_model(), [U8], ProbeOptions(folder=tmp_path)), _model()) == [None] * 3
    assert not list(tmp_path.iterdir())
    vendor.is_killed = False
    assert _latencies(probe_units(_model(), [U8], ProbeOptions(folder=tmp_path)), _model()) == [2000.0] * 3


def test_nobody_waits_for_what_is_late_but_it_is_kept(vendor: Vendor, tmp_path: Path) -> None:
    vendor.open.clear()
    model, others = _model(), set(threading.enumerate())
    assert _latencies(probe_units(model, [U8], ProbeOptions(limit_s=0.05, folder=tmp_path)), model) == [None] * 3
    vendor.open.set()
    for thread in set(threading.enumerate()) - others:
        thread.join(timeout=work.PATIENCE_S)
    assert _latencies(probe_units(model, [U8], ProbeOptions(limit_s=0.0, folder=tmp_path)), model) == [2000.0] * 3


def test_nobody_waits_for_the_whole_where_all_pieces_are_known(vendor: Vendor, tmp_path: Path) -> None:
    vendor.refuses_above = 20
    model, options = _model(40), ProbeOptions(folder=tmp_path)
    probe_units(model, [U8], options)
    (whole,) = [path for path in tmp_path.glob("*.json") if '"latencies_ns": []' in path.read_text()]
    whole.unlink()
    assert _latencies(probe_units(model, [U8], options), model) == [2000.0] * 40
    assert len(vendor.asked) == 4
    # With a piece of them missing the whole is asked about first.
    next(iter(tmp_path.glob("*.json"))).unlink()
    assert _latencies(probe_units(model, [U8], options), model) == [2000.0] * 40
    assert sorted(vendor.asked[4:])[1] == 40
    assert len(vendor.asked) == 6


def test_who_waits_is_told_so_before_and_nobody_is_where_all_is_known(vendor: Vendor, tmp_path: Path) -> None:
    asked_by_then: list[int] = []
    for _ in range(2):
        probe_units(_model(), [U8, I16], ProbeOptions(folder=tmp_path), lambda: asked_by_then.append(len(vendor.asked)))
    assert asked_by_then == [0]
    # There is no such model of the CPU.
    probe_units(_model(), [CPU], ProbeOptions(folder=tmp_path), lambda: asked_by_then.append(-1))
    assert asked_by_then == [0]


def test_damaged_answers_are_asked_for_again(vendor: Vendor, tmp_path: Path) -> None:
    probe_units(_model(), [U8], ProbeOptions(folder=tmp_path))
    (kept,) = tmp_path.glob("*.json")
    kept.write_text("{")
    assert _latencies(probe_units(_model(), [U8], ProbeOptions(folder=tmp_path)), _model()) == [2000.0] * 3
    assert len(vendor.asked) == 2


def test_products_on_shaders_are_left_to_the_stated_rates(vendor: Vendor, tmp_path: Path) -> None:
    net = Network()
    made = net.op("Sigmoid", net.conv(net.input("x", 1, 2, 8, 8), 2))
    graph = net.graph(made)
    model = make_cost_model(graph, find_units(graph), [find_target("clock:one")])
    prices = probe_units(model, [U8], ProbeOptions(folder=tmp_path))
    # The vendor has no record of the table function: our rate of one element a cycle stands in.
    assert _latencies(prices, model) == [2000.0, 128 / 500 * 1e3]
