"""Every topology: never more partitions than OpenVINO makes, and in order they give what the whole graph gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from dovetail.backends.reference import run_graph
from dovetail.ir import AnyArray, DType, Graph
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan
from dovetail.plan.quantized import QuantizedGraph
from dovetail.testing.topologies import (
    TOPOLOGIES,
    Topology,
    branches,
    chain,
    constant_bridge,
    constant_bridge_twin,
    devices_of,
    dynamic_batch,
    input_read_again,
    shared_constant,
    split_ports,
    tensor_to_everyone,
    two_constants,
    two_ports_one_tensor,
)


def placed(graph: Graph, targets: Mapping[str, str]) -> QuantizedGraph:
    """Return a float graph with every node on a target."""
    places = {name: Placement(target, Precision.FP32) for name, target in targets.items()}
    plan = Plan(graph.digest, Placement("A", Precision.FP32), {name: Override(p, "") for name, p in places.items()})
    return QuantizedGraph(graph, plan, places)


def _cut(case: Topology) -> PartitionedGraph:
    return partition(placed(case.graph, devices_of(case)))


def _feeds(graph: Graph, batch: int = 1) -> dict[str, AnyArray]:
    rng = np.random.default_rng(1)
    feeds: dict[str, AnyArray] = {}
    for name in graph.inputs:
        shape = [dim if isinstance(dim, int) else batch for dim in graph.types[name].shape or ()]
        value = rng.normal(size=shape)
        feeds[name] = np.asarray(value > 0 if graph.types[name].dtype is DType.BOOL else value.astype(np.float32))
    return feeds


def _run_parts(cut: PartitionedGraph, feeds: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    values = dict(feeds)
    for part in cut.partitions:
        found = run_graph(part.graph, {name: values[name] for name in part.graph.inputs})
        values.update({name: found[name] for name in part.graph.outputs})
    return values


@pytest.mark.parametrize("make", TOPOLOGIES, ids=lambda make: make.__name__)
def test_few_partitions_that_compute_the_same(make: Callable[[], Topology]) -> None:
    case = make()
    cut = _cut(case)
    assert len(cut.partitions) <= case.most
    for batch in (1, 5, 2):
        feeds = _feeds(case.graph, batch)
        whole, parts = run_graph(case.graph, feeds), _run_parts(cut, feeds)
        for name in case.graph.outputs:
            np.testing.assert_array_equal(parts[name], whole[name])


def _borders(case: Topology) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {item.name: (item.producer, item.consumers) for item in _cut(case).borders}


def test_a_constant_is_copied_and_never_sent() -> None:
    cut = _cut(shared_constant())
    assert [list(part.graph.constants) for part in cut.partitions] == [["k0"]] * 3
    assert not any("k0" in part.graph.inputs for part in cut.partitions)


def test_only_constants_that_are_read_are_copied() -> None:
    cut = _cut(two_constants())
    assert [sorted(part.graph.constants) for part in cut.partitions] == [["k0"], ["k1"], ["k0"]]


def test_a_constant_ties_nothing_together() -> None:
    assert len(_cut(constant_bridge()).partitions) == 3
    assert len(_cut(constant_bridge_twin()).partitions) == 2


def test_a_model_input_is_handed_to_every_reader() -> None:
    cut = _cut(input_read_again())
    assert [part.graph.inputs for part in cut.partitions] == [("x", "q"), ("tA0",), ("tB1", "q")]
    assert _borders(input_read_again()) == {"tA0": (0, (1,)), "tB1": (1, (2,))}


def test_a_tensor_with_many_readers_crosses_once() -> None:
    assert _borders(tensor_to_everyone()) == {"tA0": (0, (1,))}
    assert _borders(two_ports_one_tensor()) == {"tA0": (0, (1,))}
    part = _cut(two_ports_one_tensor()).partitions[1]
    assert part.graph.inputs == ("tA0",)


def test_ports_of_a_split_cross_alone() -> None:
    assert _borders(split_ports()) == {"q": (0, (1,)), "tA1": (0, (2,)), "tB2": (1, (2,))}


def test_what_a_body_captures_crosses_the_border() -> None:
    cut = _cut(branches())
    assert cut.partitions[-1].graph.inputs == ("flag", "tB1")
    assert [len(part.graph.nodes) for part in cut.partitions] == [1, 1, 1]


def test_sizes_of_border_tensors() -> None:
    (border, *_) = _cut(chain()).borders
    assert border.size_bytes == 1 * 2 * 4 * 4 * 4
    (border, *_) = _cut(dynamic_batch()).borders
    assert border.size_bytes == 2 * 4 * 4 * 4
