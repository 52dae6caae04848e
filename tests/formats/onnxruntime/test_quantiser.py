"""What ONNX Runtime's quantiser makes of our arguments is what was predicted, to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import draws
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

from dovetail.data import Sample
from dovetail.errors import InexpressiblePlan
from dovetail.exporters import to_onnx
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest
from dovetail.formats.onnxruntime.consumers import QUANTISER
from dovetail.formats.onnxruntime.ranges import QUANTISER_NUMERICS
from dovetail.ir import AnyArray, Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import quantize
from dovetail.testing.networks import Network, networks
from dovetail.testing.planted import HeldSamples

SEED = draws.seed_of(__name__)
"""Other networks in every run; a failure prints it."""
_HIGH = {"i16": "vsi:v853@i16", "w8a16": "vsi:v853@w8a16", "float": "cpu@fp32"}
_SHARE = 0.4

Feeds = Sequence[Mapping[str, AnyArray]]


def _classifier(number: int) -> Graph:
    """Return convolutions with clamps and a sum, pools, a resize and a layer with a softmax behind it."""
    net, rng = Network(number), np.random.default_rng(number)
    last = net.op("Relu", net.conv(net.input("x", 1, 3, 8, 8), 6, 3))
    beside = net.conv(last, 6, 3)
    pool = ("MaxPool", "AveragePool")[int(rng.integers(2))]
    windows = {"kernel_shape": (2, 2), "strides": (2, 2)}
    last = net.op(pool, net.op("Relu", net.op("Add", last, beside)), shape=(1, 6, 4, 4), **windows)
    last = net.op("AveragePool", net.op("Transpose", last, perm=(0, 1, 3, 2)), shape=(1, 6, 2, 2), **windows)
    flat = net.op("Reshape", last, net.constant(np.array([1, 24], np.int64)), shape=(1, 24))
    layer = net.constant(rng.normal(size=(24, 5)).astype(np.float32))
    first = net.op("Softmax", net.op("Gemm", flat, layer, shape=(1, 5)), axis=-1)
    return _sourced(net.graph(net.op("Mul", first, first)))


def _sourced(graph: Graph) -> Graph:
    """Return a graph whose nodes are their own origin, as those of a file are."""
    return graph.evolve(nodes=tuple(replace(node, origin=(node.name,)) for node in graph.nodes))


def _feeds(graph: Graph) -> Feeds:
    rng = np.random.default_rng(0)
    shapes = {name: graph.types[name].static_shape or () for name in graph.inputs}
    return [{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(4)]


def _plan(graph: Graph, low: str, high: str, number: int) -> Plan:
    rng = np.random.default_rng(number)
    away = [node.name for node in graph.nodes if high and rng.random() < _SHARE]
    overrides = {name: Override(parse_placement(_HIGH[high]), "a test") for name in away}
    return Plan(graph.digest, parse_placement(f"vsi:v853@{low}"), overrides)


def _both(graph: Graph, plan: Plan) -> tuple[ConsumerReading, list[list[AnyArray]]]:
    """Return what the quantiser makes of a plan, and the outputs that are predicted."""
    feeds = _feeds(graph)
    samples = HeldSamples([Sample("a", feed) for feed in feeds])
    ranges = QUANTISER_NUMERICS.calibrate(graph, samples, plan=plan).ranges
    written = find_format("onnxruntime").write(WriteRequest(plan, graph, quantized=quantize(graph, plan, ranges)))
    reading = QUANTISER.read(ConsumerRequest(graph, plan, written, None, feeds, feeds))
    expected = to_onnx(quantize(graph, QUANTISER_NUMERICS.placed(plan), ranges).graph).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(expected, options, providers=["CPUExecutionProvider"])
    return reading, [session.run(None, dict(feed)) for feed in feeds]


def _assert_equal(graph: Graph, plan: Plan, apart: float = 0.0) -> None:
    reading, expected = _both(graph, plan)
    assert reading.disobeyed == ()
    for given_outputs, predicted in zip(reading.outputs, expected, strict=True):
        for name, value in zip(graph.outputs, predicted, strict=True):
            np.testing.assert_allclose(given_outputs[name], value, rtol=0, atol=apart)


@seed(SEED)
@settings(max_examples=25, deadline=None, database=None)
@given(
    number=st.integers(0, 2**16),
    low=st.sampled_from(["u8", "i8", "i8pc"]),
    high=st.sampled_from(["", "w8a16", "float"]),
)
def test_a_network_computes_what_was_predicted(number: int, low: str, high: str) -> None:
    note(f"seed {SEED}")
    graph = _classifier(number)
    # What averages or moves values keeps the scale of what it reads, and so takes its width along.
    plan, ops = _plan(graph, low, high, number), ("Softmax", "Mul") if high == "float" else ("Conv", "Add", "Gemm")
    kept = {name: item for name, item in plan.overrides.items() if graph.node(name).op in ops}
    _assert_equal(graph, replace(plan, overrides=kept))


@seed(SEED)
@settings(max_examples=40, deadline=None, database=None)
@given(
    graph=networks(12).map(normalize),
    low=st.sampled_from(["u8", "i8", "i8pc"]),
    high=st.sampled_from(["", *_HIGH]),
    number=st.integers(0, 2**16),
)
def test_every_node_is_obeyed(graph: Graph, low: str, high: str, number: int) -> None:
    note(f"seed {SEED}")
    if not graph.nodes:
        return
    graph = _sourced(graph)
    try:
        reading, _ = _both(graph, _plan(graph, low, high, number))
    except InexpressiblePlan:
        return
    assert reading.disobeyed == ()


def _away(graph: Graph, low: str, high: str, *names: str) -> Plan:
    return Plan(
        graph.digest,
        parse_placement(f"vsi:v853@{low}"),
        {name: Override(parse_placement(_HIGH[high]), "a test") for name in names},
    )


@pytest.mark.parametrize("low", ["u8", "i8pc"])
@pytest.mark.parametrize("high", ["i16", "w8a16", "float"])
def test_a_constant_that_is_read_in_two_forms_is_two(low: str, high: str) -> None:
    net = Network(5)
    half = net.constant(np.float32(0.37))
    weight = net.constant(np.random.default_rng(1).normal(size=(4, 4, 1, 1)).astype(np.float32))
    first = net.op("Conv", net.op("Mul", net.input("x", 1, 4, 6, 6), half), weight)
    graph = _sourced(net.graph(net.op("Conv", net.op("Mul", first, half), weight)))
    reading, _ = _both(graph, _away(graph, low, high, "n2", "n3"))
    assert reading.disobeyed == ()


@pytest.mark.parametrize("low", ["u8", "i8", "i8pc"])
@pytest.mark.parametrize(("high", "names"), [("w8a16", ("n0", "n1")), ("w8a16", ("n0",)), ("i16", ())])
def test_a_weight_that_is_an_operand_too_is_two(low: str, high: str, names: Sequence[str]) -> None:
    net = Network(5)
    square = net.constant(np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32))
    graph = _sourced(net.graph(net.op("Mul", net.op("MatMul", net.input("x", 4, 4), square), square)))
    _assert_equal(graph, _away(graph, low, high, *names))


@pytest.mark.parametrize("low", ["i8", "i8pc"])
def test_a_weight_that_is_read_along_two_axes_is_two(low: str) -> None:
    net = Network(5)
    square = net.constant(np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32) * [[1], [5], [9], [40]])
    first = net.op("MatMul", net.input("x", 4, 4), square)
    graph = _sourced(net.graph(net.op("Gemm", first, square, transB=1)))
    _assert_equal(graph, _away(graph, low, "w8a16"))


@pytest.mark.parametrize("high", ["i16", "w8a16"])
def test_a_weight_that_the_file_computes_lies_in_a_model_beside(high: str) -> None:
    net = Network(5)
    graph = _sourced(net.graph(net.conv(net.input("x", 1, 3, 6, 6), 4, 3)))
    model = to_onnx(graph)
    (weight,) = (item for item in model.graph.initializer if item.name == graph.nodes[0].inputs[1])
    constant = onnx.helper.make_node("Constant", [], [weight.name], name="made", value=weight)
    model.graph.node.insert(0, constant)
    model.graph.initializer.remove(weight)
    plan, feeds = _away(graph, "i8", high, "n0"), _feeds(graph)
    ranges = QUANTISER_NUMERICS.calibrate(graph, HeldSamples([Sample("a", feed) for feed in feeds])).ranges
    content = model.SerializeToString()
    request = WriteRequest(plan, graph, quantized=quantize(graph, plan, ranges), model=content)
    written = find_format("onnxruntime").write(request)
    reading = QUANTISER.read(ConsumerRequest(graph, plan, written, content, feeds, feeds))
    assert reading.disobeyed == ()


@pytest.mark.parametrize("high", ["", "i16", "w8a16"])
@pytest.mark.parametrize("leaves", [True, False])
def test_what_a_clamp_reads_alone_keeps_its_own_range(high: str, leaves: bool) -> None:
    """The quantiser gives it the range of the clamp's result, where it leaves the network, too."""
    net = Network(3)
    total = net.op("Add", net.input("x", 1, 4), net.constant(np.array([0.5, -0.5, 1, -1], np.float32)))
    clamped = net.op("Relu", total)
    graph = _sourced(net.graph(clamped, *((total,) if leaves else ())))
    # Beside a clamp of 16 bits the output passes through 16 bits on its way out.
    _assert_equal(
        graph, _away(graph, "u8", high or "i16", *(("n1",) if high else ())), 1e-4 if leaves and high else 0.0
    )
