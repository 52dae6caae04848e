"""Placements over two real devices: what one device gives, in no more partitions than OpenVINO's HETERO makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import draws
import numpy as np
import openvino
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.openvino.core import core, device_facts, missing_devices, present_devices, register_plugin
from dovetail.compile import CompileRequest, compile_model
from dovetail.exporters import to_onnx
from dovetail.formats.openvino import apply_affinities, count_submodels
from dovetail.ir import AnyArray, DType, Graph
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.runtime import open_session
from dovetail.testing.networks import networks
from dovetail.testing.topologies import TOPOLOGIES, Topology, devices_of

REQUEST = CompileRequest(CompileOptions(threads=1))
CPU_PLUGIN = "openvino_intel_cpu_plugin"
PAIRS = {
    "openvino": ("openvino:CPUA", "openvino:CPUB"),
    "simulator": ("cpu", "vsi:v853"),
    "vendors": ("ort:CPU", "openvino:CPUA"),
}


@pytest.fixture(autouse=True, scope="module")
def _two_devices() -> Iterator[None]:
    for name in ("CPUA", "CPUB"):
        register_plugin(name, CPU_PLUGIN)
    yield
    # Tests of other files ask which devices this process has.
    for cached in (core, device_facts, present_devices, missing_devices):
        cached.cache_clear()


def _plan(graph: Graph, targets: Mapping[str, str]) -> Plan:
    places = {name: Placement(target, Precision.FP32) for name, target in targets.items()}
    default = next(iter(places.values()))
    return Plan(graph.digest, default, {name: Override(p, "test") for name, p in places.items() if p != default})


def _cut(graph: Graph, targets: Mapping[str, str]) -> PartitionedGraph:
    return partition(quantize(graph, _plan(graph, targets), Ranges(graph.digest, "", 0, {})))


def _feeds(graph: Graph, batch: int = 1) -> dict[str, AnyArray]:
    rng = np.random.default_rng(batch)
    feeds: dict[str, AnyArray] = {}
    for name in graph.inputs:
        value = rng.normal(size=[dim if isinstance(dim, int) else batch for dim in graph.types[name].shape or ()])
        feeds[name] = np.asarray(value > 0 if graph.types[name].dtype is DType.BOOL else value.astype(np.float32))
    return feeds


def _run(cut: PartitionedGraph, batches: tuple[int, ...]) -> list[Mapping[str, AnyArray]]:
    with open_session(compile_model(cut, REQUEST)) as session:
        return [session.run(_feeds(cut.source.graph, batch)).outputs for batch in batches]


def _check_same(graph: Graph, targets: Mapping[str, str], batches: tuple[int, ...] = (1,)) -> None:
    alone = _run(_cut(graph, dict.fromkeys(targets, "openvino:CPU")), batches)
    for one, whole in zip(_run(_cut(graph, targets), batches), alone, strict=True):
        assert list(one) == list(whole)
        for name in whole:
            np.testing.assert_allclose(one[name], whole[name], atol=2e-5, rtol=1e-5)


def _hetero(graph: Graph, targets: Mapping[str, str]) -> int:
    """Return how many submodels HETERO makes of the same placement."""
    model = core().read_model(to_onnx(graph).SerializeToString())
    names = {target: target.partition(":")[2] for target in targets.values()}
    apply_affinities(model, graph, _plan(graph, targets), names)
    return count_submodels(openvino.Core.compile_model(core(), model, f"HETERO:{','.join(sorted(names.values()))}"))


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("make", TOPOLOGIES, ids=lambda make: make.__name__)
def test_topologies_give_what_one_device_gives(make: Callable[[], Topology], pair: str) -> None:
    case = make()
    first, second = PAIRS[pair]
    third = {"X": first, "Y": second, "Z": "openvino:CPU"}
    targets = {node: {"A": first, "B": second, **third}[device] for node, device in devices_of(case).items()}
    if pair == "simulator" and any(node.bodies() for node in case.graph.nodes):
        targets = {node: "cpu" if case.graph.node(node).bodies() else target for node, target in targets.items()}
    assert len(_cut(case.graph, targets).partitions) <= case.most
    _check_same(case.graph, targets, (1, 5, 2))


@pytest.mark.parametrize("make", TOPOLOGIES, ids=lambda make: make.__name__)
def test_never_more_partitions_than_hetero(make: Callable[[], Topology]) -> None:
    case = make()
    names = {"A": "CPUA", "B": "CPUB", "X": "CPU", "Y": "CPUA", "Z": "CPUB"}
    targets = {node: f"openvino:{names[device]}" for node, device in devices_of(case).items()}
    if make.__name__ == "own_devices":
        targets = dict(zip(targets, ("openvino:CPU", "openvino:CPUA", "openvino:CPUB"), strict=True))
    assert len(_cut(case.graph, targets).partitions) <= _hetero(case.graph, targets)


@st.composite
def placed(draw: st.DrawFn) -> tuple[Graph, dict[str, str]]:
    """Draw a network and a side for every node."""
    graph = draw(networks())
    sides = draw(st.lists(st.booleans(), min_size=len(graph.nodes), max_size=len(graph.nodes)))
    return graph, {node.name: "AB"[side] for node, side in zip(graph.nodes, sides, strict=True)}


@pytest.mark.slow
@seed(draws.seed_of(f"{__name__} OpenVINO"))
@settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(placed())
def test_any_placement_on_openvino(case: tuple[Graph, dict[str, str]]) -> None:
    graph, sides = case
    targets = {node: f"openvino:CPU{side}" for node, side in sides.items()}
    assert len(_cut(graph, targets).partitions) <= _hetero(graph, targets)
    _check_same(graph, targets)


@pytest.mark.slow
@seed(draws.seed_of(f"{__name__} simulator"))
@settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(placed())
def test_any_placement_on_cpu_and_simulator(case: tuple[Graph, dict[str, str]]) -> None:
    graph, sides = case
    _check_same(graph, {node: {"A": "cpu", "B": "vsi:v853"}[side] for node, side in sides.items()})
