"""Tensors are stored in the part of their range that is told apart further on."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backends.reference import run_graph
from dovetail.errors import PlanError
from dovetail.exporters.onnx import to_onnx
from dovetail.ir import Graph
from dovetail.plan import Plan, parse_placement
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize import Calibration, quantize
from dovetail.quantize.ranges import Range, Ranges
from dovetail.quantize.statistics import Statistics
from dovetail.repair import HealedModel, TightenRanges, repair
from dovetail.testing.networks import Network

_KIND = "tighten-ranges"


def _two_heads() -> Graph:
    """Return a network whose output joins two convolutions, one of them reshaped; another output is a sigmoid."""
    net = Network(3)
    x = net.input("x", 1, 4, 6, 6)
    left, right = net.conv(x, 2), net.conv(x, 2)
    flat = [net.op("Reshape", part, net.constant(np.array([1, 2, 36])), shape=(1, 2, 36)) for part in (left, right)]
    joined = net.op("Concat", *flat, shape=(1, 4, 36), axis=1)
    gate = net.op("Sigmoid", net.conv(x, 3))
    swish = net.conv(x, 3)
    silu = net.op("Mul", swish, net.op("Sigmoid", swish))
    return net.graph(joined, gate, silu)


def _calibration(graph: Graph, wide: float = 500.0) -> Calibration:
    tensors = {name: Range(-wide, wide / 10) for node in graph.nodes for name in node.outputs}
    sigmoids = {node.outputs[0]: Range(0.0, 1.0) for node in graph.nodes if node.op == "Sigmoid"}
    ranges = Ranges(graph.digest, "minmax", 4, {"x": Range(-3.0, 3.0), **tensors, **sigmoids})
    return Calibration(ranges, Statistics({}))


def _tightened(graph: Graph, needed: dict[str, Range]) -> HealedModel:
    return repair(HealedModel(graph, _calibration(graph)), [_KIND], per_channel=False, needed=needed)


def test_what_an_output_does_not_need_is_cut_off_where_it_is_made() -> None:
    graph = _two_heads()
    needed = Range(-8.0, 4.0)
    healed = _tightened(graph, {graph.outputs[0]: needed})
    ranges = healed.calibration.ranges.tensors
    moved = [graph.outputs[0], *graph.producers[graph.outputs[0]].inputs]
    made = [graph.producers[name].inputs[0] for name in moved[1:]]
    for name in (*moved, *made):
        assert (ranges[name].low, ranges[name].high) == pytest.approx((needed.low, needed.high), rel=1e-5)
    assert healed.graph is graph
    assert healed.kinds == (_KIND,)


def test_a_sigmoid_needs_what_it_tells_apart_and_a_product_with_it_more() -> None:
    graph = _two_heads()
    gate, silu = graph.outputs[1:]
    healed = _tightened(graph, {})
    ranges = healed.calibration.ranges.tensors
    read, shared = graph.producers[gate].inputs[0], graph.producers[silu].inputs[0]
    assert (ranges[read].low, ranges[read].high) == pytest.approx((-8.0, 8.0))
    assert (ranges[shared].low, ranges[shared].high) == pytest.approx((-10.0, 50.0))
    (record,) = healed.records
    assert record.channels.keys() == {read, shared}


@pytest.mark.parametrize("other", ["Add", "Mul"])
def test_what_another_operator_reads_too_stays(other: str) -> None:
    net = Network(3)
    x = net.input("x", 1, 4, 6, 6)
    made = net.conv(x, 3)
    graph = net.graph(net.op("Mul", made, net.op("Sigmoid", made)), net.op(other, made, net.conv(x, 3)))
    assert _tightened(graph, {}).records == ()


def test_a_product_with_another_tensor_s_gate_needs_everything() -> None:
    net = Network(3)
    x = net.input("x", 1, 4, 6, 6)
    graph = net.graph(net.op("Mul", net.conv(x, 3), net.op("Sigmoid", net.conv(x, 3))))
    (record,) = _tightened(graph, {}).records
    gate = next(node for node in graph.nodes if node.op == "Sigmoid")
    assert record.channels.keys() == {gate.inputs[0]}


_SATURATING: dict[str, dict[str, float]] = {
    "Elu": {"alpha": 1.0},
    "Gelu": {},
    "HardSigmoid": {"alpha": 0.25, "beta": 0.4},
    "HardSwish": {},
    "Mish": {},
    "Selu": {},
    "Sigmoid": {},
    "Softplus": {},
    "Tanh": {},
}


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("op", _SATURATING)
def test_what_is_cut_off_changes_nothing_by_onnx_runtime(op: str, gated: bool) -> None:
    net = Network(3)
    x = net.input("x", 1, 1, 1, 20001)
    read = net.op("Identity", x)
    made = net.op(op, read, shape=None, **_SATURATING[op])
    whole = gated and op not in ("Sigmoid", "HardSigmoid")
    graph = net.graph(net.op("Mul", made, read) if gated else made)
    healed = _tightened(graph, {})
    assert (healed.records == ()) == whole, "only gates are known to close"
    if whole:
        return
    kept = healed.calibration.ranges.tensors[read]
    assert kept.high - kept.low < 550.0 / 1.5
    values = np.linspace(-500.0, 50.0, 20001, dtype=np.float32).reshape(1, 1, 1, -1)
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString())
    (truth,), (cut,) = (session.run(None, {"x": part}) for part in (values, np.clip(values, kept.low, kept.high)))
    assert np.abs(truth - cut).max() < 8e-4, "a tenth of the step of a byte from -1 to 1"


def test_an_output_that_is_needed_as_a_whole_stays() -> None:
    net = Network(3)
    made = net.conv(net.input("x", 1, 4, 6, 6), 2)
    graph = net.graph(made, net.op("Sigmoid", made))
    assert _tightened(graph, {}).records == ()
    assert _tightened(graph, {made: Range(-400.0, 40.0)}).records == (), "hardly a bit is gained"


@pytest.mark.parametrize("place", ["vsi:a311d@u8", "vsi:v853@i8pc", "vsi:v853@i16"])
def test_what_is_left_is_told_apart_more_finely(place: str) -> None:
    graph = _two_heads()
    needed = {graph.outputs[0]: Range(-2.0, 2.0)}
    x = {"x": np.random.default_rng(5).normal(size=(1, 4, 6, 6)).astype(np.float32)}
    truth = np.clip(run_graph(graph, x)[graph.outputs[0]], -2.0, 2.0)

    def off(ranges: Ranges) -> float:
        quantised = quantize(graph, Plan(graph.digest, parse_placement(place)), ranges)
        made = run_graph(quantised.graph, x)[graph.outputs[0]]
        return float(np.abs(np.clip(made, -2.0, 2.0) - truth).max())

    assert off(_tightened(graph, needed).calibration.ranges) < off(_calibration(graph).ranges) / 4


@given(low=st.floats(-1e6, -1e-6), high=st.floats(1e-6, 1e6))
def test_a_record_holds_what_is_needed(low: float, high: float) -> None:
    graph = _two_heads()
    start = HealedModel(graph, _calibration(graph, 1e9))
    healed = repair(start, [_KIND], per_channel=False, needed={graph.outputs[0]: Range(low, high)})
    found = healed.calibration.ranges.tensors[graph.outputs[0]]
    slack = 4e-6 * max(-low, high)
    assert low - slack <= found.low <= low
    assert high <= found.high <= high + slack
    again = TightenRanges().carry(graph, start.calibration, healed.records[0])
    assert again.ranges.tensors == healed.calibration.ranges.tensors


@pytest.mark.parametrize(
    "channels", [{"nowhere": (-1, 1, 0)}, {"t0": (1, -1, 0)}, {"t0": (-1, 1)}, {"t0": (-1, 1, 5000)}]
)
def test_a_record_that_does_not_fit_is_refused(channels: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(PlanError):
        TightenRanges().apply(_two_heads(), RepairRecord(_KIND, channels))
