"""Split nodes compute what the whole did, keep what they store alike, and heal weights that one scale breaks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.data import Sample
from dovetail.errors import PlanError
from dovetail.ir import Graph
from dovetail.ir.roles import joins_parts
from dovetail.plan import Plan, parse_placement
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize import calibrate, quantize
from dovetail.quantize.calibrate import load_float
from dovetail.repair import (
    HealedModel,
    RepairBasis,
    SplitRanges,
    find_splits,
    float_error,
    repair,
    repeat_repairs,
    rounded_weights,
)
from dovetail.repair.order import find_reordering, is_depthwise
from dovetail.repair.weights import WeightView, weight_view
from dovetail.testing.networks import Network, networks
from dovetail.testing.planted import HeldSamples

_KIND = "split-ranges"


def _samples(graph: Graph, count: int = 4, seed: int = 0) -> list[Sample]:
    rng = np.random.default_rng(seed)
    sizes = {name: graph.types[name].static_shape or () for name in graph.inputs}
    return [
        Sample(f"s{index}", {name: rng.normal(size=shape).astype(np.float32) for name, shape in sizes.items()})
        for index in range(count)
    ]


def _views(graph: Graph) -> list[WeightView]:
    return [view for node in graph.nodes if (view := weight_view(graph, node)) is not None]


def _split(graph: Graph, samples: Sequence[Sample]) -> HealedModel:
    """Return the graph with every node split that may be."""
    start = HealedModel(graph, calibrate(graph, HeldSamples(samples)))
    return repair(start, [_KIND], per_channel=False, raised=frozenset(node.name for node in graph.nodes))


def _uneven(seed: int, kind: str = "residual") -> Graph:
    """Return a network with channels that read faint inputs by large weights, between others that these break."""
    net = Network(seed)
    faint = np.where(np.arange(8) < 4, 1.0, 0.05).reshape(8, 1, 1, 1).astype(np.float32)
    weight = net.constant(net.rng.uniform(-0.5, 0.5, (8, 3, 3, 3)).astype(np.float32) * faint)
    start = net.op("Conv", net.input("x", 1, 3, 6, 6), weight, shape=(1, 8, 6, 6), pads=(1, 1, 1, 1))
    start = net.op("HardSwish", start)
    made = net.op("Conv", start, _mixed(net), net.uniform(8), pads=(1, 1, 1, 1))
    made = net.op("Clip", made, net.constant(np.float32(0)), net.constant(np.float32(2)))
    if kind == "output":
        return net.graph(made)
    if kind == "depthwise":
        made = net.op("Conv", made, net.uniform(8, 1, 3, 3), net.uniform(8), group=8, pads=(1, 1, 1, 1))
        made = net.op("Relu", made)
    made = net.op("Add", made, net.conv(start, 8))
    joined = net.op("Concat", start, net.op("HardSwish", made), shape=(1, 16, 6, 6), axis=1)
    scaled = net.op("Mul", joined, net.uniform(16, 1, 1, low=0.5))
    pooled = net.op("GlobalAveragePool", net.conv(scaled, 6), shape=(1, 6, 1, 1))
    flat = net.op("Flatten", pooled, shape=(1, 6))
    return net.graph(net.op("Gemm", flat, net.uniform(6, 5), net.uniform(5), shape=(1, 5)))


def _mixed(net: Network) -> str:
    """Return weights whose every third channel reads the faint half of its inputs by twenty times larger ones."""
    weight = net.rng.uniform(-0.3, 0.3, (8, 8, 3, 3)) * np.where(np.arange(8) < 4, 1.0, 0.1).reshape(1, 8, 1, 1)
    weight[1::3] *= np.where(np.arange(8) < 4, 0.0, 200.0).reshape(1, 8, 1, 1)
    return net.constant(weight.astype(np.float32))


@settings(max_examples=120, deadline=None)
@given(networks(14), st.randoms(use_true_random=False))
def test_any_split_keeps_float_on_any_data(graph: Graph, random: Random) -> None:
    channels: dict[str, tuple[int, ...]] = {}
    for view in _views(graph):
        name, count = view.node.outputs[0], view.outputs
        if count < 2 or (len(view.values) > 1 and not is_depthwise(view)):
            continue
        parts = [random.randint(0, 1) for _ in range(count - 2)] + [0, 1]
        moves = parts != sorted(parts)
        channels[name] = tuple(sorted(parts)) if moves and find_reordering(graph, name) is None else tuple(parts)
    record = RepairRecord(_KIND, channels)
    made = SplitRanges().apply(graph, record)
    assert sum(joins_parts(made, node) for node in made.nodes) == len(channels)
    assert float_error(graph, made, (item.inputs for item in _samples(graph, seed=5))) < 1e-5
    assert repeat_repairs(graph, [record]).digest == made.digest


@pytest.mark.parametrize("kind", ["residual", "depthwise", "output"])
@pytest.mark.parametrize("seed", range(4))
def test_uneven_weights_are_parted_and_float_stays(seed: int, kind: str) -> None:
    graph = _uneven(seed, kind)
    healed = _split(graph, _samples(graph))
    assert "t2" in healed.records[0].channels
    assert float_error(graph, healed.graph, (item.inputs for item in _samples(graph, seed=9))) < 1e-5
    if kind != "output":
        parts = [view for view in _views(healed.graph) if view.node.origin == ("n2",)]
        peaks = [np.abs(view.values).max(axis=(2, 3)).reshape(-1) for view in parts]
        assert [len(item) for item in peaks] == [5, 3]
        assert peaks[0].max() < peaks[1].min() / 15


@pytest.mark.parametrize("kind", ["residual", "depthwise", "output"])
def test_what_was_split_is_not_split_again(kind: str) -> None:
    graph = _uneven(1, kind)
    samples = _samples(graph)
    once = _split(graph, samples)
    assert not _split(once.graph, samples).records


@pytest.mark.parametrize("kind", ["residual", "depthwise", "output"])
@pytest.mark.parametrize("seed", range(3))
def test_calibration_is_carried_and_parts_are_stored_as_the_whole(seed: int, kind: str) -> None:
    graph = _uneven(seed, kind)
    samples = _samples(graph)
    healed = _split(graph, samples)
    measured = calibrate(healed.graph, HeldSamples(samples))
    for name in graph.types.keys() & measured.ranges.tensors.keys():
        carried, limits = healed.calibration.ranges.of(name), measured.ranges.of(name)
        assert (carried.low, carried.high) == pytest.approx((limits.low, limits.high), rel=1e-4, abs=1e-6), name
    for name, powers in measured.statistics.tensors.items():
        channels = {power.axis: power for power in healed.calibration.statistics.tensors[name]}
        for power in powers:
            if power.axis == 1:
                np.testing.assert_allclose(channels[1].mean, power.mean, rtol=1e-3, atol=1e-4)
    plan = Plan(healed.graph.digest, parse_placement("vsi:a311d@u8"))
    stored = quantize(healed.graph, plan, healed.calibration.ranges).graph
    joins = [stored.node(node.name) for node in healed.graph.nodes if joins_parts(healed.graph, node)]
    assert joins
    for node in joins:
        assert len({stored.types[name].quant for name in (*node.inputs, *node.outputs)}) == 1


def test_means_for_bias_correction_follow_the_channels() -> None:
    graph = _uneven(2, "depthwise")
    samples = _samples(graph)
    start = HealedModel(graph, calibrate(graph, HeldSamples(samples)))
    raised = frozenset(node.name for node in graph.nodes)
    healed = repair(start, ["bias-correction", _KIND], per_channel=False, raised=raised)
    measured = calibrate(healed.graph, HeldSamples(samples)).statistics.tensors
    assert healed.kinds == ("bias-correction", _KIND)
    read = {node.inputs[0] for node in healed.graph.nodes if node.op == "Conv"}
    assert read <= healed.calibration.ranges.means.keys()
    for name in read:
        mean = next(power.mean for power in measured[name] if power.axis == 1)
        np.testing.assert_allclose(healed.calibration.ranges.means[name], mean, rtol=1e-3, atol=1e-4)


def test_only_what_would_be_raised_is_split_and_nothing_with_scales_by_channel() -> None:
    graph = _uneven(0)
    start = HealedModel(graph, calibrate(graph, HeldSamples(_samples(graph))))
    every = frozenset(node.name for node in graph.nodes)
    assert repair(start, [_KIND], per_channel=False).records == ()
    assert repair(start, [_KIND], per_channel=True, raised=every).records == ()
    (record,) = repair(start, [_KIND], per_channel=False, raised=frozenset({"n2"})).records
    assert set(record.channels) == {"t2"}


def _chain(seed: int) -> Graph:
    """Return convolutions in a row of which each is uneven by another factor."""
    net = Network(seed)
    made, read, odd = net.input("x", 1, 3, 8, 8), 3, np.arange(16) % 2
    for factor in net.rng.permutation([4.0, 16.0, 64.0]):
        weight = net.rng.normal(0, 1.2, (16, read, 3, 3)) / np.sqrt(9 * read)
        if read == 16:
            weight[::5] *= (1 + (factor - 1) * odd).reshape(1, -1, 1, 1)
        weight *= np.where(odd, 1 / 16, 1.0).reshape(-1, 1, 1, 1)
        made = net.op("Conv", made, net.constant(weight), net.uniform(16), shape=(1, 16, 8, 8), pads=(1, 1, 1, 1))
        made, read = net.op("HardSwish", made), 16
    return net.graph(made)


@pytest.mark.parametrize("seed", range(6))
def test_nodes_to_split_come_in_the_order_of_the_noise_that_goes(seed: int) -> None:
    graph = _chain(seed)
    samples = _samples(graph, 8)
    calibration = calibrate(graph, HeldSamples(samples))
    everything = frozenset(node.name for node in graph.nodes)
    found = find_splits(RepairBasis(graph, calibration.statistics, per_channel=False, raised=everything))
    assert found
    gains = [_gain(graph, samples, name) for name in found]
    # What is measured is one draw of rounding errors, so that what is as good as equal may change places.
    assert all(first > second / 2 for first, second in itertools.pairwise(gains)), gains
    assert not find_splits(RepairBasis(graph, calibration.statistics, per_channel=True, raised=everything))


def _gain(graph: Graph, samples: Sequence[Sample], name: str) -> float:
    """Return the noise over the signal that a split takes from what a node makes of exact inputs."""
    start = HealedModel(graph, calibrate(graph, HeldSamples(samples)))
    split = repair(start, [_KIND], per_channel=False, raised=frozenset({name})).graph
    read, made = graph.node(name).inputs[0], graph.node(name).outputs[0]
    inputs = [item.inputs for item in samples]
    if read not in graph.inputs:
        with closing(load_float(replace(graph, outputs=(read,)))) as model:
            inputs = [model.run(item) for item in inputs]
    precision, noise = parse_placement("vsi:a311d@u8").precision, []
    for whole in (graph, split):
        nodes = tuple(node for node in whole.nodes if node.name == name or name in node.origin)
        part = Graph("part", nodes, (read,), (made,), whole.types, whole.constants)
        with closing(load_float(part)) as exact, closing(load_float(rounded_weights(part, precision))) as rounded:
            pairs = [(exact.run(value)[made], rounded.run(value)[made]) for value in inputs]
        noise.append(sum(float(np.square(second - first).sum() / np.square(first).sum()) for first, second in pairs))
    return noise[0] - noise[1]


def test_even_weights_are_not_split() -> None:
    net = Network(4)
    graph = net.graph(net.conv(net.op("Relu", net.conv(net.input("x", 1, 3, 6, 6), 8, 3)), 8))
    assert not _split(graph, _samples(graph)).records


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        ({"t2": (0, 1)}, "which has others"),
        ({"t2": (0,) * 8}, "which has others"),
        ({"x": (0, 1, 1)}, "which nothing makes"),
        ({"t2": (0, 1, 0, 1, 0, 1, 0, 1)}, "whose order others need"),
    ],
)
def test_a_record_of_another_graph_is_refused(channels: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        repeat_repairs(_uneven(0, "output"), [RepairRecord(_KIND, channels)])


def test_splits_keep_to_the_basis_they_are_found_on() -> None:
    graph = _uneven(3, "depthwise")
    calibration = calibrate(graph, HeldSamples(_samples(graph)))
    every = frozenset(node.name for node in graph.nodes)
    record = SplitRanges().find(RepairBasis(graph, calibration.statistics, per_channel=False, raised=every))
    assert record is not None
    assert repeat_repairs(graph, [record]).digest == _split(graph, _samples(graph)).graph.digest


def test_an_order_stays_where_another_axis_reads_it() -> None:
    net = Network(8)
    line = net.op("Conv", net.input("x", 1, 2, 6), net.uniform(4, 2, 1), shape=(1, 4, 6))
    sheet = net.conv(net.input("y", 1, 2, 4, 6), 4)
    graph = net.graph(net.conv(net.op("Mul", line, sheet, shape=(1, 4, 4, 6)), 2))
    assert find_reordering(graph, line) is None


@pytest.mark.parametrize("op", ["Gemm", "MatMul", "ConvTranspose"])
def test_every_weighted_operator_can_be_split(op: str) -> None:
    net = Network(9)
    if op == "ConvTranspose":
        made = net.op(op, net.input("x", 1, 3, 4, 4), net.uniform(3, 6, 2, 2), net.uniform(6), shape=(1, 6, 5, 5))
        graph = net.graph(net.conv(net.op("Relu", made), 2))
    else:
        bias = (net.uniform(1, 6),) if op == "Gemm" else ()
        made = net.op(op, net.input("x", 2, 3), net.uniform(3, 6), *bias, shape=(2, 6))
        graph = net.graph(net.op("MatMul", net.op("Sigmoid", made), net.uniform(6, 2), shape=(2, 2)))
    split = SplitRanges().apply(graph, RepairRecord(_KIND, {made: (1, 0, 0, 1, 0, 1)}))
    assert sum(node.op == op and node.name.startswith("n0/part") for node in split.nodes) == 2
    assert float_error(graph, split, (item.inputs for item in _samples(graph, seed=5))) < 1e-5
