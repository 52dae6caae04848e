"""What the programs that read our files make of them: what is obeyed is told from what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import draws
import numpy as np
import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

from dovetail.data import Sample
from dovetail.errors import FormatError
from dovetail.formats import WriteRequest, Written, find_format
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, Obeyed, find_consumer
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import calibrate, quantize
from dovetail.testing.networks import Network, networks
from dovetail.testing.planted import HeldSamples

from .conftest import make_plan

SEED = draws.seed_of(__name__)
"""Other networks in every run; a failure prints it."""


def _samples(graph: Graph, count: int = 3) -> list[Sample]:
    rng = np.random.default_rng(0)
    shapes = {name: graph.types[name].static_shape or () for name in graph.inputs}
    return [
        Sample(str(index), {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})
        for index in range(count)
    ]


def _written(name: str, graph: Graph, plan: Plan) -> Written:
    quantized = quantize(graph, plan, calibrate(graph, HeldSamples(_samples(graph))).ranges)
    return find_format(name).write(WriteRequest(plan, graph, quantized=quantized))


def _read(name: str, graph: Graph, plan: Plan, written: Written) -> ConsumerReading:
    consumer = find_consumer(name)
    assert consumer is not None
    return consumer.read(ConsumerRequest(graph, plan, written, None, [item.inputs for item in _samples(graph)]))


def _sourced(graph: Graph) -> Graph:
    """Return a graph whose nodes are their own origin, as those of a file are."""
    return graph.evolve(nodes=tuple(replace(node, origin=(node.name,)) for node in graph.nodes))


@seed(SEED)
@settings(max_examples=40, deadline=None, database=None)
@given(
    graph=networks(12).map(normalize),
    low=st.sampled_from(["u8", "i8", "i8pc"]),
    high=st.sampled_from(["cpu@fp32", "vsi:v853@i16", "vsi:v853@w8a16"]),
    draw=st.integers(0, 2**16),
)
def test_qdq_files_are_obeyed_in_every_node(graph: Graph, low: str, high: str, draw: int) -> None:
    note(f"seed {SEED}")
    if not graph.nodes:
        return
    rng = np.random.default_rng(draw)
    away = {node.name: Override(parse_placement(high), "a test") for node in graph.nodes if rng.random() < 0.4}
    plan = Plan(graph.digest, parse_placement(f"vsi:v853@{low}"), away)
    reading = _read("onnx-qdq", graph, plan, _written("onnx-qdq", graph, plan))
    assert reading.disobeyed == ()
    assert len(reading.nodes) == len(graph.nodes)


@pytest.mark.parametrize("name", ["onnx-qdq", "onnx-grid", "onnxruntime"])
@pytest.mark.parametrize("high", ["vsi:v853@i16", "vsi:v853@w8a16", "cpu@fp32"])
def test_a_file_of_another_plan_is_told_by_the_nodes_that_differ(name: str, high: str, graph: Graph) -> None:
    graph = _sourced(graph)
    low = make_plan(graph, "vsi:v853@i8pc")
    raised = make_plan(graph, "vsi:v853@i8pc", head_conv=high, sig=high, scale=high)
    assert _read(name, graph, low, _written(name, graph, low)).disobeyed == ()
    assert _read(name, graph, raised, _written(name, graph, raised)).disobeyed == ()
    reading = _read(name, graph, raised, _written(name, graph, low))
    assert {item.node for item in reading.disobeyed} >= {"head/conv", "sig", "scale"}
    assert {item.obeyed for item in reading.disobeyed} == {Obeyed.CHANGED}


@pytest.mark.parametrize("name", ["onnx-qdq", "onnx-grid", "onnxruntime"])
def test_a_node_that_is_left_in_float_is_called_dropped(name: str, graph: Graph) -> None:
    graph = _sourced(graph)
    asked = make_plan(graph, "vsi:v853@i8pc")
    floats = dict.fromkeys(("head_conv", "sig", "scale", "join", "flat", "act", "stem"), "cpu@fp32")
    written = make_plan(graph, "vsi:v853@i8pc", **{key: value for key, value in floats.items() if key != "stem"})
    reading = _read(name, graph, asked, _written(name, graph, written))
    assert {item.node for item in reading.disobeyed if item.obeyed is Obeyed.DROPPED} >= {"scale", "sig", "join"}
    assert "stem" not in {item.node for item in reading.disobeyed if item.obeyed is Obeyed.DROPPED}


@pytest.mark.parametrize("name", ["onnx-qdq", "onnx-grid", "onnxruntime"])
def test_a_file_that_the_runtime_refuses_is_an_error(name: str, graph: Graph) -> None:
    graph = _sourced(graph)
    plan = make_plan(graph, "vsi:v853@i8pc")
    broken = replace(_written(name, graph, plan), content=b"{}" if name == "onnxruntime" else b"\0\1\2")
    if name == "onnxruntime":
        broken = replace(broken, content=b'{"activation_type": "QInt8", "no_such_argument": 1}')
    with pytest.raises(FormatError, match="ONNX Runtime refuses it"):
        _read(name, graph, plan, broken)


def test_affinities_are_obeyed_by_hetero(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32", join="cpu@fp32")
    other = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32", stem="cpu@fp32")
    reading = _read("openvino", graph, plan, _written("openvino", graph, plan))
    assert reading.disobeyed == ()
    assert {item.node: item.given for item in reading.nodes}["sig"] == "CPU"
    reading = _read("openvino", graph, plan, _written("openvino", graph, other))
    assert {(item.node, item.asked, item.given) for item in reading.disobeyed} == {
        ("join", "CPU", "NPU"),
        ("stem", "NPU", "CPU"),
    }


def test_a_real_model_is_read_under_its_own_names(digits: Path) -> None:
    """The user's file has the names that the arguments and the affinities say."""
    graph = normalize(load_model(digits / "digits.onnx"))
    floats = {node.name: Override(parse_placement("cpu@fp32"), "a test") for node in graph.nodes[-6:]}
    plan = Plan(graph.digest, parse_placement("vsi:v853@i8pc"), floats)
    for name in ("onnxruntime", "openvino"):
        consumer = find_consumer(name)
        assert consumer is not None
        written = find_format(name).write(WriteRequest(plan, graph))
        request = ConsumerRequest(graph, plan, written, (digits / "digits.onnx").read_bytes())
        reading = consumer.read(request)
        assert [(item.node, item.asked, item.given) for item in reading.disobeyed] == [], name
        assert len(reading.nodes) > 10


def test_a_format_that_nothing_here_reads_has_no_consumer() -> None:
    assert find_consumer("rknn") is None


@pytest.mark.parametrize("last", [True, False])
def test_an_operator_that_the_runtime_spells_out_is_read_by_what_it_stores(last: bool) -> None:
    net = Network(2)
    tensor = net.op("HardSwish", net.conv(net.input("x", 1, 3, 8, 8), 4))
    graph = _sourced(normalize(net.graph(tensor if last else net.conv(tensor, 4))))
    plan = Plan(graph.digest, parse_placement("vsi:v853@i8pc"))
    reading = _read("onnx-qdq", graph, plan, _written("onnx-qdq", graph, plan))
    assert [(item.op, item.given) for item in reading.nodes if item.op == "HardSwish"] == [("HardSwish", "i8")]
    assert reading.disobeyed == ()
