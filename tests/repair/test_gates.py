"""Freed gates keep the float function, and let an equalisation give channels like ranges."""

from __future__ import annotations

from contextlib import closing

import draws
import numpy as np
import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

from dovetail.backends.reference import run_graph
from dovetail.data import Sample
from dovetail.errors import PlanError
from dovetail.ir import Graph
from dovetail.plan import parse_placement
from dovetail.plan.plan import Plan
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize import calibrate, quantize
from dovetail.quantize.calibrate import load_float
from dovetail.repair import (
    FreeGates,
    HealedModel,
    RepairBasis,
    find_gates,
    float_error,
    repair,
    repeat_repairs,
    spared_nodes,
)
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

SEED = draws.seed_of(__name__)
"""Other networks in every run; a failure prints it."""
KINDS = ("free-gates", "equalise-stored")
GATES = ("Sigmoid", "HardSigmoid", "Mish")


def _gated(net: Network, tensor: str, gate: str) -> str:
    """Add a product of a tensor with its own gate."""
    if gate == "Mish":
        return net.op("Mul", tensor, net.op("Tanh", net.op("Softplus", tensor)))
    return net.op("Mul", net.op(gate, tensor), tensor)


def _wide(net: Network, tensor: str, channels: int, spread: float) -> str:
    """Add a convolution whose channels have ranges from 1 to `spread`."""
    read = net.shape(tensor)[1]
    scales = np.geomspace(1.0, spread, channels)[:, None, None, None]
    weight = net.rng.uniform(-1, 1, (channels, read, 3, 3)) * scales / read
    return net.op(
        *("Conv", tensor, net.constant(weight.astype(np.float32)), net.uniform(channels, low=-0.1, high=0.1)),
        shape=(1, channels, *net.shape(tensor)[2:]),
        pads=(1, 1, 1, 1),
    )


def _narrow(net: Network, tensor: str, channels: int, spread: float) -> str:
    """Add a convolution that undoes these ranges."""
    read = net.shape(tensor)[1]
    weight = net.rng.uniform(-1, 1, (channels, read, 1, 1)) / np.geomspace(1.0, spread, read)[None, :, None, None]
    return net.op(
        *("Conv", tensor, net.constant(weight.astype(np.float32)), net.uniform(channels)),
        shape=(1, channels, *net.shape(tensor)[2:]),
    )


def _chain(gate: str = "Sigmoid", number: int = 0, spread: float = 300.0, channels: int = 12) -> Graph:
    net = Network(number)
    wide = _gated(net, _wide(net, net.input("x", 1, 3, 8, 8), channels, spread), gate)
    return net.graph(_narrow(net, wide, 5, spread))


def _samples(graph: Graph, number: int = 0, count: int = 6, scale: float = 1.0) -> list[Sample]:
    rng = np.random.default_rng(number)
    shapes = {name: graph.types[name].static_shape or () for name in graph.inputs}
    return [
        Sample(str(index), {name: scale * rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})
        for index in range(count)
    ]


def _started(graph: Graph) -> HealedModel:
    return HealedModel(graph, calibrate(graph, HeldSamples(_samples(graph))))


def _healed(graph: Graph, kinds: tuple[str, ...] = KINDS, *, per_channel: bool = True) -> HealedModel:
    start = _started(graph)
    gates = [name for group in find_gates(graph, start.calibration.statistics) for name in group]
    return repair(start, kinds, per_channel, gates=gates)


def _noise(healed: HealedModel, graph: Graph, low: str) -> float:
    """Return the share of noise in what everything low gives on new samples, by the reference."""
    low_plan = Plan(healed.graph.digest, parse_placement(low))
    quantized = quantize(healed.graph, low_plan, healed.calibration.ranges).graph
    noise, signal, (name,) = 0.0, 0.0, graph.outputs
    with closing(load_float(graph)) as model:
        for sample in _samples(graph, 1):
            expected, found = model.run(sample.inputs)[name], run_graph(quantized, sample.inputs)[name]
            noise += float(np.square(found - expected).sum())
            signal += float(np.square(expected).sum())
    return noise / signal


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("low", ["reference@i8pc", "reference@u8"])
def test_channels_of_uneven_range_are_healed(gate: str, low: str) -> None:
    graph = _chain(gate)
    per_channel = low.endswith("pc")
    tightened, equalised, freed = (
        _noise(_healed(graph, (*kinds, "tighten-ranges"), per_channel=per_channel), graph, low)
        for kinds in ((), KINDS[1:], KINDS)
    )
    assert equalised > tightened / 2
    assert freed < tightened / 4


@seed(SEED)
@settings(max_examples=40, deadline=None, database=None)
@given(
    gate=st.sampled_from(GATES),
    number=st.integers(0, 1000),
    spread=st.floats(1.0, 1e4),
    channels=st.integers(2, 17),
    scale=st.floats(0.1, 30.0),
)
def test_the_float_function_stays_on_any_data(
    gate: str, number: int, spread: float, channels: int, scale: float
) -> None:
    note(f"seed {SEED}")
    graph = _chain(gate, number, spread, channels)
    alone, both = (_healed(graph, kinds) for kinds in (KINDS[:1], KINDS))
    inputs = [item.inputs for item in _samples(graph, number + 1, scale=scale)]
    assert float_error(graph, alone.graph, inputs) == 0
    assert float_error(graph, both.graph, inputs) < 1e-4
    assert repeat_repairs(graph, both.records).digest == both.graph.digest


def test_calibration_is_carried_as_if_measured_again() -> None:
    healed = _healed(_chain(), KINDS[:1])
    measured = calibrate(healed.graph, HeldSamples(_samples(healed.graph)))
    assert healed.calibration.ranges.tensors == measured.ranges.tensors
    assert healed.calibration.statistics.tensors.keys() == measured.statistics.tensors.keys()


def _three() -> Graph:
    """Return a chain of three gates: even, very uneven, uneven."""
    net = Network(3)
    tensor = _gated(net, _wide(net, net.input("x", 1, 3, 8, 8), 8, 1.0), "Sigmoid")
    tensor = _gated(net, _wide(net, tensor, 8, 3000.0), "Sigmoid")
    tensor = _gated(net, _wide(net, _narrow(net, tensor, 4, 3000.0), 8, 30.0), "Sigmoid")
    return net.graph(_narrow(net, tensor, 4, 30.0))


def test_gates_come_with_most_to_gain_first_and_even_ones_not() -> None:
    graph = _three()
    start = _started(graph)
    assert find_gates(graph, start.calibration.statistics) == [("t3",), ("t7",)]
    near, readers = spared_nodes(graph, ["t3"])
    assert near == {"n3", "n4", "n5"}
    assert readers == {"n6"}


def test_a_sum_frees_both_gates_or_none() -> None:
    net = Network(5)
    x = net.input("x", 1, 3, 8, 8)
    left, right = (_gated(net, _wide(net, x, 8, 100.0), "Sigmoid") for _ in range(2))
    graph = net.graph(_narrow(net, net.op("Add", left, right), 4, 100.0))
    start = _started(graph)
    (group,) = find_gates(graph, start.calibration.statistics)
    assert set(group) == {"t0", "t3"}
    assert repair(start, KINDS, per_channel=True, gates=group).kinds == KINDS


def test_what_leaves_the_graph_or_is_read_elsewhere_is_left_alone() -> None:
    net = Network(7)
    wide = _wide(net, net.input("x", 1, 3, 8, 8), 8, 100.0)
    product = _gated(net, wide, "Sigmoid")
    ends = net.graph(product)
    assert find_gates(ends, _started(ends).calibration.statistics) == []
    net.op("Relu", wide)
    graph = net.graph(_narrow(net, product, 4, 100.0), "t3")
    assert find_gates(graph, _started(graph).calibration.statistics) == []


def test_a_record_of_another_graph_is_refused_and_a_gate_is_freed_once() -> None:
    graph = _chain()
    record = RepairRecord("free-gates", {"t0": ()})
    freed = FreeGates().apply(graph, record)
    with pytest.raises(PlanError, match="'t0'"):
        FreeGates().apply(freed, record)
    with pytest.raises(PlanError, match="'nowhere'"):
        FreeGates().apply(graph, RepairRecord("free-gates", {"nowhere": ()}))
    start = _started(graph)
    basis = RepairBasis(freed, start.calibration.statistics, per_channel=True, gates=("t0",))
    assert FreeGates().find(basis) is None
