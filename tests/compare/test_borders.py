"""Borders against the golden run: the first partition that deviates is named, whatever comes after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.bundle import Bundle
from dovetail.compare.borders import check_accounts, verify_borders
from dovetail.compile import CompileRequest, compile_model
from dovetail.errors import DataError, PlanError
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.runtime import open_session
from dovetail.testing.networks import Network

TARGETS = ("cpu", "ort:CPU", "openvino:CPU", "cpu")


def _graph() -> Graph:
    net = Network()
    made = net.input("x", 1, 4, 8, 8)
    for _ in TARGETS:
        made = net.op("Relu", net.conv(made, 4, 3))
    return net.graph(made)


def _cut(graph: Graph) -> PartitionedGraph:
    places = [Placement(target, Precision.FP32) for target in TARGETS for _ in (0, 1)]
    overrides = {node.name: Override(place, "test") for node, place in zip(graph.nodes, places, strict=True)}
    plan = Plan(graph.digest, Placement("cpu", Precision.FP32), overrides)
    return partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))


def _bundle(graph: Graph) -> Bundle:
    return compile_model(_cut(graph), CompileRequest(CompileOptions(threads=1)))


FEEDS = [{"x": np.random.default_rng(seed).normal(size=(1, 4, 8, 8)).astype(np.float32)} for seed in range(2)]


def test_a_good_bundle_has_no_deviation() -> None:
    graph = _graph()
    report = verify_borders(graph, _bundle(graph), FEEDS)
    assert [check.partition for check in report.checks] == [0, 1, 2, 3]
    assert [check.device for check in report.checks] == ["cpu", "ort:CPU", "openvino:CPU", "cpu"]
    assert report.first_deviation is None


@pytest.mark.parametrize("wrong", [0, 1, 2, 3])
def test_the_first_partition_that_deviates_is_named(wrong: int) -> None:
    """A vendor that computes with other weights, and says nothing."""
    graph = _graph()
    cut = _cut(graph)
    part = cut.partitions[wrong]
    name = next(name for name in part.graph.constants if part.graph.constants[name].ndim == 4)
    broken = part.graph.evolve(constants={**part.graph.constants, name: part.graph.constants[name] * 1.1})
    parts = tuple(replace(one, graph=broken) if one.index == wrong else one for one in cut.partitions)
    bundle = compile_model(replace(cut, partitions=parts), CompileRequest(CompileOptions(threads=1)))
    first = verify_borders(graph, bundle, FEEDS).first_deviation
    assert first is not None
    assert (first.partition, first.target) == (wrong, TARGETS[wrong])
    assert first.sqnr_db < 40


def test_another_graph_and_no_samples() -> None:
    graph = _graph()
    bundle = _bundle(graph)
    with pytest.raises(DataError, match="no sample"):
        verify_borders(graph, bundle, [])
    with pytest.raises(PlanError, match="the plan was made for"):
        verify_borders(graph.evolve(outputs=(graph.nodes[0].outputs[0],)), bundle, FEEDS)


def test_accounts_agree_with_the_plan() -> None:
    with open_session(_bundle(_graph())) as session:
        told = session.accounts()
        assert check_accounts(session) == ()
    # The cpu backend keeps silent; the other two name their operators.
    assert [bool(account) for account in told] == [False, True, True, False]
    assert any("n2" in name or "t2" in name or "n3" in name for name in told[1])


def test_a_backend_that_ran_elsewhere_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.backends.ort.executable import OrtExecutable

    monkeypatch.setattr(OrtExecutable, "account", lambda self: {"n2": "ort:CPU", "n3": "ort:SomeOtherProvider"})
    with open_session(_bundle(_graph())) as session:
        (found,) = check_accounts(session)
    assert (found.partition, found.operator, found.wanted, found.found) == (1, "n3", "ort:CPU", "ort:SomeOtherProvider")
