"""Every term of a roofline, against sums by hand on a part and a CPU with round figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dovetail.backend.arithmetic import EXACT
from dovetail.backend.costs import Figure, Quality
from dovetail.backend.profiles.hosts import HostFacts
from dovetail.backend.target import Engine, HardwareFacts, OperatorRule, TargetProfile
from dovetail.cost.roofline import HostRoofline, NpuRoofline
from dovetail.cost.sizes import Sizer
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.testing.networks import Network

U8, I16, FP32 = Precision.U8, Precision.I16, Precision.FP32
PIXELS = 8 * 8
ENGINES = {
    Engine.NN: {"Conv", "ConvTranspose", "Gemm", "Add", "Relu", "Reshape"},
    Engine.SP: {"Mul", "MatMul"},
    Engine.TP: {"MaxPool", "Flatten"},
    Engine.SH: {"Softmax", "Sigmoid", "Squeeze"},
}
FACTS = HardwareFacts(
    nn_cores=2,
    macs_per_cycle=300,
    clock_hz=500_000_000,
    ddr_bytes_per_cycle=1e9,
    sram_bytes=0,
    sdk_name="",
    source="made up",
)
CYCLE_NS = 2.0
HOST = HostFacts(
    name="round",
    title="a round CPU",
    float_macs_per_s=1e9,
    byte_macs_per_s=4e9,
    elements_per_s=5e8,
    bytes_per_s=1e15,
    overhead_ns=1000.0,
    link_bytes_per_s=1e9,
    switch_ns=7000.0,
    source="made up too",
)
"""A multiply-accumulate is 1 ns in float and a quarter of it in 8 bits, an element 2 ns; memory takes no time."""


def _part(facts: HardwareFacts = FACTS) -> TargetProfile:
    rules = tuple(OperatorRule(frozenset(ops), frozenset({U8, I16, FP32}), engine) for engine, ops in ENGINES.items())
    return TargetProfile("part", "A part", (U8, I16, FP32), rules, EXACT, hardware=facts)


def _npu(graph: Graph, facts: HardwareFacts = FACTS) -> NpuRoofline:
    return NpuRoofline(_part(facts), facts, Sizer(graph))


def _npu_ns(graph: Graph, precision: Precision = U8, facts: HardwareFacts = FACTS) -> float:
    figure = _npu(graph, facts).latency(graph, graph.nodes, "part", precision)
    assert figure is not None
    return figure.latency_ns


def _host_ns(graph: Graph, precision: Precision = FP32, facts: HostFacts = HOST) -> float:
    figure = HostRoofline("cpu", facts, Sizer(graph)).latency(graph, graph.nodes, "cpu", precision)
    assert figure is not None
    return figure.latency_ns


def _conv(columns: int, op: str = "Conv") -> Graph:
    """Return a convolution of 4 into 6 channels over 64 pixels with a kernel of one row."""
    net = Network()
    shape = (6, 4, 1, columns) if op == "Conv" else (4, 6, 1, columns)
    x = net.input("x", 1, 4, 8, 8)
    return net.graph(net.op(op, x, net.constant(np.zeros(shape, np.float32)), shape=(1, 6, 8, 8)))


def _one(op: str, **attributes: Any) -> Graph:
    """Return a node that reads and makes 100 elements."""
    net = Network()
    return net.graph(net.op(op, net.input("x", 1, 100), **attributes))


def _pair(op: str) -> Graph:
    net = Network()
    return net.graph(net.op(op, net.input("x", 1, 100), net.input("y", 1, 100)))


def _conv_relu() -> Graph:
    net = Network()
    return net.graph(net.op("Relu", net.conv(net.input("x", 1, 4, 8, 8), 6, 3, bias=False)))


@pytest.mark.parametrize(
    ("columns", "share"), [(1, 1 / 3), (2, 2 / 3), (3, 1.0), (4, 4 / 6), (5, 5 / 6), (6, 1.0), (7, 7 / 9)]
)
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_the_array_takes_a_kernel_three_columns_at_a_time(columns: int, share: float, op: str) -> None:
    macs = (6 if op == "Conv" else 4) * PIXELS * columns * (4 if op == "Conv" else 6)
    assert _npu_ns(_conv(columns, op)) == pytest.approx(macs / 300 / share * CYCLE_NS)


def test_sixteen_bits_take_the_array_four_passes() -> None:
    assert _npu_ns(_conv(3), I16) == pytest.approx(4 * _npu_ns(_conv(3), U8))
    assert _npu_ns(_pair("Add"), I16) == pytest.approx(4 * _npu_ns(_pair("Add"), U8))


@pytest.mark.parametrize("op", ["Gemm", "MatMul"])
def test_a_product_has_no_kernel_and_fills_a_third(op: str) -> None:
    net = Network()
    x = net.input("x", 5, 40)
    graph = net.graph(net.op(op, x, net.constant(np.zeros((40, 30), np.float32)), shape=(5, 30)))
    assert _npu_ns(graph) == pytest.approx(5 * 30 * 40 / (300 / 3) * CYCLE_NS)


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_elements_on_the_array_take_64_lanes_of_every_core(op: str) -> None:
    assert _npu_ns(_pair(op)) == pytest.approx(100 / (2 * 64) * CYCLE_NS)


def test_the_tensor_processor_takes_four_elements_a_cycle_at_any_width() -> None:
    assert _npu_ns(_one("MaxPool"), U8) == pytest.approx(100 / 4 * CYCLE_NS)
    assert _npu_ns(_one("MaxPool"), I16) == pytest.approx(100 / 4 * CYCLE_NS)


@pytest.mark.parametrize(("precision", "cycles"), [(U8, 100), (I16, 200), (FP32, 400)])
def test_shaders_take_an_element_a_cycle_at_8_bits_and_half_of_it_at_twice_the_width(
    precision: Precision, cycles: int
) -> None:
    graph = _one("Sigmoid")
    assert _npu_ns(graph, precision) == cycles * CYCLE_NS
    assert _npu(graph).shader_cycles(graph, graph.nodes[0], precision) == cycles


@pytest.mark.parametrize(("precision", "rate"), [(U8, 8), (I16, 4), (FP32, 2)])
def test_shaders_multiply_eight_times_a_cycle_at_8_bits(precision: Precision, rate: int) -> None:
    graph = _conv(3)
    macs = 6 * PIXELS * 3 * 4
    assert _npu(graph).shader_cycles(graph, graph.nodes[0], precision) == macs / rate


def test_shaders_take_whole_cycles() -> None:
    net = Network()
    x = net.input("x", 1, 3)
    graph = net.graph(net.op("MatMul", x, net.constant(np.zeros((3, 3), np.float32)), shape=(1, 3)))
    assert _npu(graph).shader_cycles(graph, graph.nodes[0], U8) == 2  # 9 products


@pytest.mark.parametrize(
    ("op", "passes"),
    [
        ("Softmax", 4),  # maximum, exponential, sum, division
        ("LogSoftmax", 4),
        ("LayerNormalization", 6),  # sum, difference, square, sum, scale, shift
        ("InstanceNormalization", 6),
        ("GroupNormalization", 6),
        ("Exp", 2),
        ("Log", 2),
        ("Pow", 3),  # logarithm, product, exponential
        ("Div", 2),  # reciprocal, product
        ("Erf", 3),
        ("Gelu", 4),  # the error function, and its product
        ("Tanh", 1),
    ],
)
def test_operators_that_touch_an_element_more_than_once(op: str, passes: int) -> None:
    graph = _one(op)
    assert _npu(graph).shader_cycles(graph, graph.nodes[0], U8) == passes * 100
    assert _host_ns(graph) == pytest.approx(passes * 100 * 2 + 1000)


@pytest.mark.parametrize("op", ["Reshape", "Flatten", "Squeeze"])
def test_what_renames_memory_takes_no_cycles_on_any_engine(op: str) -> None:
    graph = _one(op)
    assert _npu_ns(graph) == pytest.approx(200 / 1e9 * CYCLE_NS)
    assert _npu(graph).shader_cycles(graph, graph.nodes[0], U8) == 0
    assert _host_ns(graph) == pytest.approx(1000)


@pytest.mark.parametrize("op", ["Unsqueeze", "Identity", "Dropout"])
def test_what_renames_memory_takes_no_cycles_on_the_cpu(op: str) -> None:
    assert _host_ns(_one(op)) == pytest.approx(1000)


def test_a_clamp_is_free_beside_its_operator_and_not_alone() -> None:
    graph = _conv_relu()
    conv, relu = graph.nodes
    npu, host = _npu(graph), HostRoofline("cpu", HOST, Sizer(graph))
    macs = 6 * PIXELS * 4 * 9
    assert _npu_ns(graph) == pytest.approx(macs / 300 * CYCLE_NS)
    alone = npu.latency(graph, [relu], "part", U8)
    assert alone == Figure(6 * PIXELS / 128 * CYCLE_NS, Quality.ROOFLINE, npu.source)
    assert _host_ns(graph) == pytest.approx(macs + 1000)
    assert host.latency(graph, [relu], "cpu", FP32) == Figure(6 * PIXELS * 2 + 1000, Quality.ROOFLINE, "made up too")
    assert host.latency(graph, [conv], "cpu", FP32) == Figure(macs + 1000, Quality.ROOFLINE, "made up too")


def test_what_follows_a_clamp_in_a_step_is_counted() -> None:
    net = Network()
    clamped = net.op("Relu", net.conv(net.input("x", 1, 4, 8, 8), 6, 3, bias=False))
    graph = net.graph(net.op("MaxPool", clamped))
    macs = 6 * PIXELS * 4 * 9
    assert _npu_ns(graph) == pytest.approx((macs / 300 + 6 * PIXELS / 4) * CYCLE_NS)
    assert _host_ns(graph) == pytest.approx(macs + 6 * PIXELS * 2 + 2 * 1000)


def test_nodes_of_a_step_add_up() -> None:
    net = Network()
    graph = net.graph(net.op("Sigmoid", net.op("Sigmoid", net.input("x", 1, 100))))
    assert _npu_ns(graph) == 200 * CYCLE_NS
    assert _host_ns(graph) == pytest.approx(2 * (100 * 2 + 1000))


def test_memory_decides_where_it_is_slower() -> None:
    graph = _pair("Add")
    slow = replace(FACTS, ddr_bytes_per_cycle=0.5)
    assert _npu_ns(graph, U8, slow) == 300 / 0.5 * CYCLE_NS
    assert _npu_ns(graph, I16, slow) == 600 / 0.5 * CYCLE_NS
    slow_host = replace(HOST, bytes_per_s=1e6)
    assert _host_ns(graph, FP32, slow_host) == pytest.approx(1200 * 1000 + 1000)


def test_a_conversion_is_elements_or_traffic() -> None:
    graph = _one("Relu")
    source = _npu(graph).source
    assert _npu(graph).conversion(100, 300) == Figure(25 * CYCLE_NS, Quality.ROOFLINE, source)
    slow = replace(FACTS, ddr_bytes_per_cycle=2.0)
    assert _npu(graph, slow).conversion(100, 300).latency_ns == 150 * CYCLE_NS
    host = HostRoofline("cpu", HOST, Sizer(graph))
    assert host.conversion(100, 300) == Figure(200 + 1000, Quality.ROOFLINE, "made up too")
    assert replace(host, facts=replace(HOST, bytes_per_s=1e6)).conversion(100, 300).latency_ns == 300e3 + 1000


@pytest.mark.parametrize("precision", [U8, Precision.I8, Precision.I8PC, Precision.I8DFP])
def test_the_cpu_multiplies_bytes_faster_and_converts_where_it_has_no_kernel(precision: Precision) -> None:
    assert _host_ns(_conv(3), precision) == pytest.approx(6 * PIXELS * 3 * 4 / 4 + 1000)
    assert _host_ns(_one("Sigmoid"), precision) == pytest.approx((1 + 2) * 100 * 2 + 1000)
    assert _host_ns(_one("Reshape"), precision) == pytest.approx(1000)


@pytest.mark.parametrize("precision", [FP32, I16, Precision.FP16])
def test_the_cpu_computes_the_rest_in_float(precision: Precision) -> None:
    assert _host_ns(_conv(3), precision) == pytest.approx(6 * PIXELS * 3 * 4 + 1000)
    assert _host_ns(_one("Sigmoid"), precision) == pytest.approx(100 * 2 + 1000)


def test_a_roofline_prices_its_own_target_and_what_that_runs() -> None:
    graph = _one("Sigmoid")
    assert _npu(graph).latency(graph, graph.nodes, "other", U8) is None
    assert HostRoofline("cpu", HOST, Sizer(graph)).latency(graph, graph.nodes, "part", FP32) is None
    refused = _one("Erf")
    assert _npu(refused).latency(refused, refused.nodes, "part", U8) is None
    assert _npu(graph).latency(graph, graph.nodes, "part", Precision.I8PC) is None


def test_the_source_says_what_was_taken() -> None:
    facts = replace(FACTS, ddr_bytes_per_cycle=3.8)
    assert _npu(_one("Relu"), facts).source == (
        "300 multiply-accumulates a cycle at 8 bits and a quarter at 16, 500 MHz, 3.8 bytes a cycle; "
        "shaders are stated at 1 element and 8 multiply-accumulates a cycle at 8 bits, half of it at 16"
    )
