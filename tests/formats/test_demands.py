"""Plans under the demands of a toolchain: exported as they are, and obeyed by the program that reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import draws
import numpy as np
import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

from dovetail.data import Sample
from dovetail.errors import PlanError, SearchError
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, find_consumer
from dovetail.formats.demands import demands_of, find_word_format
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import calibrate, quantize
from dovetail.search.space import FLOAT, Space, SpaceOptions, make_space
from dovetail.testing.networks import Network, networks
from dovetail.testing.planted import HeldSamples

from .litert.test_quantizer import lite_network, opened, read

SEED = draws.seed_of(__name__)
"""Other networks in every run; a failure prints it."""
LOW = parse_placement("vsi:v853@i8pc")
WIDE = parse_placement("vsi:v853@i16")
ROOT = Path(__file__).parents[2]


def sourced(graph: Graph) -> Graph:
    """Return a graph whose nodes are their own origin, as those of a file are."""
    return graph.evolve(nodes=tuple(replace(node, origin=(node.name,)) for node in graph.nodes))


def space_for(name: str, graph: Graph, listing: bytes | None = None, low: str = str(LOW)) -> Space:
    """Return the search space of a toolchain."""
    start = parse_placement(low)
    request = WriteRequest(Plan(graph.digest, start), graph, listing)
    demands = demands_of(find_word_format(name), request, start, (WIDE, FLOAT))
    return make_space(graph, start, (WIDE,), options=SpaceOptions(demands=demands))


def drawn(space: Space, draw: int) -> Plan:
    """Return a plan of a space, with some units at some rung."""
    rng = np.random.default_rng(draw)
    share = rng.uniform(0.1, 0.7)
    raised = {
        unit: Override(ladder[rng.integers(len(ladder))], "a test")
        for unit, ladder in space.ladders.items()
        if rng.random() < share
    }
    return space.plan(raised)


def _samples(graph: Graph) -> list[Sample]:
    rng = np.random.default_rng(0)
    shapes = {name: graph.types[name].static_shape or () for name in graph.inputs}
    return [
        Sample(str(index), {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})
        for index in range(3)
    ]


def _read(name: str, graph: Graph, plan: Plan) -> ConsumerReading:
    quantized = quantize(graph, plan, calibrate(graph, HeldSamples(_samples(graph))).ranges)
    written = find_format(name).write(WriteRequest(plan, graph, quantized=quantized))
    consumer = find_consumer(name)
    assert consumer is not None
    return consumer.read(ConsumerRequest(graph, plan, written, None, [item.inputs for item in _samples(graph)]))


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", pytest.param("nncf", marks=pytest.mark.slow)])
@seed(SEED)
@settings(max_examples=25, deadline=None, database=None)
@given(graph=networks(12).map(normalize), draw=st.integers(0, 2**16))
def test_what_the_space_has_is_exported_unchanged_and_obeyed(name: str, graph: Graph, draw: int) -> None:
    note(f"seed {SEED}")
    if not graph.nodes:
        return
    graph = sourced(graph)
    try:
        space = space_for(name, graph)
    except SearchError:
        # A network of one clamp: the toolchain leaves it in float.
        return
    plan = drawn(space, draw)
    reading = _read(name, graph, plan)
    assert [(item.node, item.op, item.asked, item.given) for item in reading.disobeyed] == []
    assert reading.nodes or name == "nncf"


@pytest.mark.slow
@seed(SEED)
@settings(max_examples=25, deadline=None, database=None)
@given(number=st.integers(0, 2**31), draw=st.integers(0, 2**16))
def test_what_the_space_of_a_tflite_file_has_is_obeyed(number: int, draw: int) -> None:
    note(f"seed {SEED}")
    content = lite_network(number)
    graph = opened(content)
    plan = drawn(space_for("ai-edge-quantizer", graph, content), draw)
    reading = read(content, graph, plan)
    assert [(item.node, item.op, item.asked, item.given) for item in reading.disobeyed] == []
    assert {item.node for item in reading.nodes} == {node.name for node in graph.nodes}


@pytest.mark.parametrize("between", [[], ["MaxPool"]])
def test_a_clamp_behind_what_nncf_leaves_in_float_is_in_float(between: list[str]) -> None:
    net = Network()
    tensor = net.op("Softmax", net.conv(net.input("x", 1, 3, 8, 8), 4), axis=1)
    for op in between:
        tensor = net.op(op, tensor, kernel_shape=(3, 3), pads=(1,) * 4)
    graph = sourced(net.graph(net.op("Relu", tensor)))
    space = space_for("nncf", graph)
    clamp = graph.nodes[-1].name
    for draw in range(20):
        assert drawn(space, draw).placement(clamp) == FLOAT


def test_a_clamp_goes_with_what_it_clamps_for_nncf() -> None:
    net = Network()
    tensor = net.input("x", 1, 3, 8, 8)
    other = net.conv(tensor, 3)
    summed = net.op("Sub", other, net.conv(tensor, 3))
    graph = sourced(net.graph(net.op("Relu", net.op("Transpose", summed, perm=(0, 1, 3, 2)))))
    space = space_for("nncf", graph)
    maker, clamp = graph.producers[summed].name, graph.nodes[-1].name
    plans = [drawn(space, draw) for draw in range(20)]
    assert {plan.placement(maker) for plan in plans} == {LOW, FLOAT}
    assert all(plan.placement(maker) == plan.placement(clamp) for plan in plans)


def test_a_pooling_between_a_clamp_and_what_it_clamps_goes_with_them_for_nncf() -> None:
    net = Network()
    pooled = net.op("MaxPool", net.conv(net.input("x", 1, 3, 8, 8), 3), kernel_shape=(3, 3), pads=(1,) * 4)
    graph = sourced(net.graph(net.op("Relu", pooled)))
    space = space_for("nncf", graph)
    plans = [drawn(space, draw) for draw in range(20)]
    found = {tuple(plan.placement(node.name) for node in graph.nodes) for plan in plans}
    assert found == {(LOW,) * 3, (FLOAT,) * 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "options"),
    [("MaxPool", {"kernel_shape": (3, 3), "pads": (1,) * 4}), ("Transpose", {"perm": (0, 1, 3, 2)})],
)
def test_a_clamp_behind_what_moves_bytes_is_rounded_by_nncf(between: str, options: dict[str, Any]) -> None:
    net = Network()
    moved = net.op(between, net.conv(net.input("x", 1, 3, 8, 8), 3), **options)
    graph = sourced(net.graph(net.op("Relu", moved)))
    reading = _read("nncf", graph, Plan(graph.digest, LOW))
    assert {item.op for item in reading.nodes} == {"Conv", "Relu"}
    assert not reading.disobeyed


@pytest.mark.slow
def test_a_number_added_behind_a_convolution_is_no_bias_for_nncf() -> None:
    net = Network()
    conv = net.conv(net.input("x", 1, 3, 8, 8), 3, bias=False)
    added = net.op("Add", conv, net.constant(np.full((1, 1, 1, 1), 2.0, np.float32)))
    graph = sourced(net.graph(net.conv(added, 2)))
    reading = _read("nncf", graph, space_for("nncf", graph).plan({}))
    assert "disable_bias_correction=True" in reading.consumer
    assert reading.nodes
    assert not reading.disobeyed


@pytest.mark.parametrize(
    ("name", "rungs"),
    [
        ("nncf", ["cpu@fp32"]),
        ("onnxruntime", ["vsi:v853@i16", "cpu@fp32"]),
        ("openvino", ["cpu@fp32"]),
        ("rknn", ["vsi:v853@i16"]),
        ("ai-edge-quantizer", ["cpu@fp32"]),
    ],
)
def test_a_word_stands_for_one_placement_and_the_rest_is_not_tried(name: str, rungs: list[str]) -> None:
    net = Network()
    graph = sourced(net.graph(net.op("Relu", net.conv(net.input("x", 1, 3, 4, 4), 2))))
    demands = demands_of(find_word_format(name), WriteRequest(Plan(graph.digest, LOW), graph), LOW, (WIDE, FLOAT))
    assert [str(place) for place in demands.rungs] == rungs


def test_a_start_without_a_word_is_refused_by_what_there_is() -> None:
    net = Network()
    graph = net.graph(net.op("Relu", net.input("x", 1, 3, 4, 4)))
    low = parse_placement("vsi:v853@i16")
    with pytest.raises(PlanError, match="no word for vsi:v853@i16 as the base"):
        demands_of(find_word_format("nncf"), WriteRequest(Plan(graph.digest, low), graph), low, (FLOAT,))


def test_a_format_that_says_every_plan_is_no_toolchain() -> None:
    with pytest.raises(PlanError, match=r"onnx-qdq.*asks nothing"):
        find_word_format("onnx-qdq")


def test_readers_of_a_float_tensor_are_one_unit_for_the_quantiser() -> None:
    net = Network()
    tensor = net.op("Sigmoid", net.input("x", 1, 3, 4, 4))
    left, right = net.op("Sigmoid", tensor), net.op("Tanh", tensor)
    graph = sourced(net.graph(net.op("Mul", left, right)))
    space = space_for("onnxruntime", graph)
    nodes = {name: unit.nodes for name, unit in space.units.items()}
    assert nodes["n1"] == ("n1", "n2")
    assert "n2" not in nodes
    assert space.parts("n1") == ("n1", "n2")
    assert len(space_for("openvino", graph).units) == len(nodes) + 1


@pytest.mark.parametrize(
    ("name", "folder", "listing", "low"),
    [
        ("acuity", "acuity", "digits.json", "vsi:v853@i8pc"),
        ("paddle", "fastdeploy", "log.txt", "vsi:a311d@u8"),
    ],
)
def test_a_listing_of_a_toolchain_bounds_the_space(name: str, folder: str, listing: str, low: str) -> None:
    content = (ROOT / "docs" / "how-to" / folder / listing).read_bytes()
    graph = normalize(load_model(ROOT / "examples" / "digits" / "digits.onnx"))
    space = space_for(name, graph, content, low)
    form = find_word_format(name)
    for draw in range(40):
        plan = drawn(space, draw)
        assert form.write(WriteRequest(plan, graph, content)).content
