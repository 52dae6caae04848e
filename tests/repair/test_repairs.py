"""Repairs keep what they claim on any network, and heal what was planted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.data import Sample
from dovetail.errors import PlanError
from dovetail.ir import AnyArray, Graph
from dovetail.passes.draft import Draft
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize import calibrate
from dovetail.repair import (
    REPAIRS,
    Equalise,
    HealedModel,
    Repair,
    RepairBasis,
    ZeroDeadChannels,
    float_error,
    repair,
    repeat_repairs,
)
from dovetail.repair.ties import find_ties
from dovetail.repair.weights import weight_view
from dovetail.testing.networks import Network, networks
from dovetail.testing.planted import HeldSamples


def _samples(graph: Graph, count: int = 4, seed: int = 0) -> list[Sample]:
    rng = np.random.default_rng(seed)
    sizes = {name: [size for size in graph.types[name].shape or () if isinstance(size, int)] for name in graph.inputs}
    return [
        Sample(f"s{index}", {name: rng.normal(size=shape).astype(np.float32) * 3 for name, shape in sizes.items()})
        for index in range(count)
    ]


def _started(graph: Graph, samples: Sequence[Sample]) -> HealedModel:
    return HealedModel(graph, calibrate(graph, HeldSamples(samples)))


def _evidence(start: HealedModel, *, per_channel: bool = False) -> RepairBasis:
    return RepairBasis(start.graph, start.calibration.statistics, per_channel)


def _bottleneck(seed: int) -> Graph:
    """Return an inverted bottleneck with a skip, a clip, a concatenation and a classifier."""
    net = Network(seed)
    start = net.op("Relu", net.conv(net.input("x", 1, 3, 6, 6), 8, 3))
    wide = net.op("Clip", net.conv(start, 16), net.constant(np.float32(0)), net.constant(np.float32(6)))
    deep = net.op("Conv", wide, net.uniform(16, 1, 3, 3), net.uniform(16), group=16, pads=(1, 1, 1, 1))
    back = net.conv(net.op("LeakyRelu", deep, alpha=0.1), 8)
    branch = net.op("Relu", net.conv(start, 5))
    joined = net.op("Concat", net.op("Add", start, back), branch, shape=(1, 13, 6, 6), axis=1)
    pooled = net.op("MaxPool", joined, shape=(1, 13, 5, 5), kernel_shape=(2, 2))
    flat = net.op("Flatten", net.op("GlobalAveragePool", pooled, shape=(1, 13, 1, 1)), shape=(1, 13))
    return net.graph(net.op("Gemm", flat, net.uniform(13, 4), net.uniform(4), shape=(1, 4)))


@pytest.mark.parametrize("kind", ["equalise", "equalise-stored", "equalise-exact", "dead-channels"])
@settings(max_examples=40, deadline=None)
@given(graph=networks(14))
def test_repairs_keep_the_float_function_on_the_samples(kind: str, graph: Graph) -> None:
    samples = _samples(graph)
    healed = repair(_started(graph, samples), [kind], per_channel=False)
    assert float_error(graph, healed.graph, (item.inputs for item in samples)) < 1e-4


@pytest.mark.parametrize("seed", range(6))
def test_what_does_not_go_through_clips_keeps_float_on_any_data(seed: int) -> None:
    graph = _bottleneck(seed)
    healed = repair(_started(graph, _samples(graph)), ["equalise-exact"], per_channel=False)
    others = _samples(graph, 8, seed=99)
    assert healed.kinds == ("equalise-exact",)
    assert float_error(graph, healed.graph, ({"x": item.inputs["x"] * 50} for item in others)) < 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_every_scaled_tensor_has_the_range_that_calibration_finds(seed: int) -> None:
    graph = _bottleneck(seed)
    samples = _samples(graph)
    healed = repair(_started(graph, samples), ["equalise"], per_channel=False)
    measured = calibrate(healed.graph, HeldSamples(samples))
    assert healed.records
    assert healed.calibration.ranges.graph_digest == healed.graph.digest
    for name, limits in measured.ranges.tensors.items():
        carried = healed.calibration.ranges.of(name)
        assert (carried.low, carried.high) == pytest.approx((limits.low, limits.high), rel=1e-4, abs=1e-6), name
    for name, powers in measured.statistics.tensors.items():
        for power, carried_power in zip(powers, healed.calibration.statistics.tensors[name], strict=True):
            if power.axis == 1:
                np.testing.assert_allclose(carried_power.mean, power.mean, rtol=1e-3, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 7), st.sampled_from([1e-4, 1e-2, 1e3, 1e4]))
def test_a_planted_scale_is_healed_to_the_weights_without_it(seed: int, channel: int, scale: float) -> None:
    graph = _bottleneck(seed)
    planted = _planted(graph, channel, scale)
    samples = _samples(graph)
    healed = [repair(_started(item, samples), ["equalise-exact"], per_channel=False) for item in (graph, planted)]
    clean, cured = (_ratios(item.graph) for item in healed)
    assert max(_ratios(planted)) > 30 * max(_ratios(graph))
    assert max(cured) < 1.2 * max(clean)


def _planted(graph: Graph, channel: int, scale: float) -> Graph:
    """Return the graph with one channel of the skip scaled, and back wherever it is read."""
    ties = find_ties(graph)
    chosen = ties.of("t1")[channel]
    around = {name for view in ties.views for name in (view.node.inputs[0], view.node.outputs[0])}
    steps = {name: np.where(ties.of(name) == chosen, round(16 * np.log2(scale)), 0) for name in around}
    return Equalise().apply(
        graph, RepairRecord("equalise", {name: tuple(item.tolist()) for name, item in steps.items()})
    )


def _ratios(graph: Graph) -> list[float]:
    """Return of every weight how far the largest output channel is above the smallest."""
    views = [view for node in graph.nodes if (view := weight_view(graph, node)) is not None]
    peaks: list[AnyArray] = [np.abs(view.values).max(axis=(2, 3)).reshape(-1) for view in views]
    return [float(item.max() / item.min()) for item in peaks]


def test_dead_channels_lose_their_weights_and_nothing_else() -> None:
    net = Network(3)
    bias = np.array([0.1, -50.0, 0.2, -60.0], np.float32)
    made = net.op("Conv", net.input("x", 1, 2, 4, 4), net.uniform(4, 2, 1, 1), net.constant(bias), shape=(1, 4, 4, 4))
    graph = net.graph(net.conv(net.op("Relu", made), 3))
    record = ZeroDeadChannels().find(_evidence(_started(graph, _samples(graph))))
    assert record is not None
    assert set(record.channels.values()) == {(1, 3)}
    healed = ZeroDeadChannels().apply(graph, record)
    rows, columns = (weight_view(healed, node) for node in healed.nodes if node.op == "Conv")
    assert rows is not None
    assert columns is not None
    assert rows.bias is not None
    assert not rows.values[:, [1, 3]].any()
    assert not columns.values[:, :, [1, 3]].any()
    assert rows.values[:, [0, 2]].all()
    assert columns.values[:, :, [0, 2]].all()
    np.testing.assert_array_equal(rows.bias, np.where(bias < -1, 0, bias).astype(np.float64))


@pytest.mark.parametrize("known", REPAIRS.values(), ids=REPAIRS)
def test_what_was_repaired_needs_no_more_of_it(known: Repair) -> None:
    graph = _bottleneck(1)
    once = repair(_started(graph, _samples(graph)), [known.kind], per_channel=False)
    twice = repair(HealedModel(once.graph, once.calibration), [known.kind], per_channel=False)
    if known.kind == "dead-channels":
        assert not twice.records
    elif known.kind == "bias-correction":
        assert twice.graph.digest == once.graph.digest
    else:
        steps = [number for record in twice.records for numbers in record.channels.values() for number in numbers]
        assert max(map(abs, steps), default=0) <= 2  # Whole steps round once more.


@settings(max_examples=20, deadline=None)
@given(networks(14))
def test_recorded_repairs_can_be_repeated(graph: Graph) -> None:
    healed = repair(_started(graph, _samples(graph)), list(REPAIRS), per_channel=False)
    assert repeat_repairs(graph, healed.records).digest == healed.graph.digest


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (RepairRecord("witchcraft", {}), "not known here"),
        (RepairRecord("equalise", {"t0": (1, 2, 3)}), "3 scales for 8 channels"),
        (RepairRecord("dead-channels", {"t0": (8,)}), "channels that it lacks"),
    ],
)
def test_a_record_of_another_graph_is_refused(record: RepairRecord, words: str) -> None:
    graph = _bottleneck(0)
    with pytest.raises(PlanError, match=words):
        repeat_repairs(graph, [record])


def test_a_scale_does_not_go_through_what_bends_it() -> None:
    net = Network(5)
    made = net.op("Sigmoid", net.conv(net.input("x", 1, 2, 4, 4), 4))
    graph = net.graph(net.conv(made, 3))
    assert Equalise().find(_evidence(_started(graph, _samples(graph)))) is None


def test_a_clipped_channel_keeps_its_scale() -> None:
    net = Network(6)
    weight = np.array([10.0, 0.01, 0.3], np.float32).reshape(3, 1, 1, 1)
    clip = net.op(
        "Clip",
        net.op("Conv", net.input("x", 1, 1, 4, 4), net.constant(weight), shape=(1, 3, 4, 4)),
        net.constant(np.float32(0)),
        net.constant(np.float32(6)),
    )
    graph = net.graph(net.conv(clip, 2))
    record = Equalise().find(_evidence(_started(graph, _samples(graph))))
    assert record is not None
    (steps,) = set(record.channels.values())
    assert steps[0] == 0
    assert steps[1] < steps[2] < 0


def test_constants_that_two_nodes_share_are_parted() -> None:
    net = Network(7)
    shared = net.uniform(4, 4, 1, 1)
    first = net.op("Relu", net.op("Conv", net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 4)), shared))
    graph = net.graph(net.op("Conv", first, shared))
    samples = _samples(graph)
    healed = repair(_started(graph, samples), ["equalise-exact"], per_channel=False)
    assert float_error(graph, healed.graph, (item.inputs for item in samples)) < 1e-5
    assert healed.records
    assert shared in Draft.of(graph).constants


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize(("before", "after"), [(0, 4), (4, 0), (1, 3)])
def test_scales_go_through_channels_that_are_padded(before: int, after: int, scale: float) -> None:
    """Grow channels by zeros beside them, as face and hand detectors for phones do."""
    net = Network(8)
    start = net.op("Relu", net.conv(net.input("x", 1, 3, 6, 6), 8, 3))
    pads = net.constant(np.array([0, before, 0, 0, 0, after, 0, 0]))
    grown = net.op("Pad", start, pads, net.constant(np.float32(0)), shape=(1, 12, 6, 6))
    graph = net.graph(net.conv(net.op("Add", net.conv(start, 12), grown), 4))
    steps = tuple(round(16 * np.log2(scale)) * (index % 2) for index in range(8))
    ties = find_ties(graph)
    grown_steps = np.zeros(ties.count, int)
    grown_steps[ties.of(start)] = steps
    tensors = {node.outputs[0]: tuple(grown_steps[ties.of(node.outputs[0])].tolist()) for node in graph.nodes[:-1]}
    planted = Equalise().apply(graph, RepairRecord("equalise", tensors))
    samples = _samples(graph)
    assert float_error(graph, planted, (item.inputs for item in samples)) < 1e-5
    healed = repair(_started(planted, samples), ["equalise-exact"], per_channel=False)
    assert float_error(graph, healed.graph, (item.inputs for item in samples)) < 1e-5
    assert _spread(healed.graph, "n0") < _spread(planted, "n0") / 50


def _spread(graph: Graph, name: str) -> float:
    """Return how many times the largest row of a node's weights is as large as the smallest."""
    node = next(node for node in graph.nodes if node.name == name)
    view = weight_view(graph, node)
    assert view is not None
    peaks = np.abs(view.values).max(axis=(0, 2, 3))
    return float(peaks.max() / peaks.min())
