"""A model in parts is the model, wherever a plan or a person cuts it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import PlanError
from dovetail.exporters import to_onnx
from dovetail.ir import AnyArray, Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize.ranges import Range, Ranges
from dovetail.repair.ends import (
    ModelParts,
    head_tensors,
    parts_at,
    parts_by_plan,
    parts_error,
    plan_of_part,
    ranges_of_part,
)
from dovetail.testing.networks import Network, networks

NPU, CPU = parse_placement("vsi:v853@i8pc"), parse_placement("cpu@fp32")


def _feeds(graph: Graph) -> dict[str, AnyArray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=graph.types[name].static_shape or ()).astype(np.float32) for name in graph.inputs}


def _run(graph: Graph, feeds: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    options = onnxruntime.SessionOptions()
    # With its rewrites it takes zeros that a Pad adds before a MaxPool for nothing.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(to_onnx(graph).SerializeToString(), options)
    return dict(zip(graph.outputs, session.run(None, dict(feeds)), strict=True))


def _in_a_row(parts: ModelParts, feeds: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    values = dict(feeds)
    for part in parts.graphs:
        values |= _run(part, {name: values[name] for name in part.inputs})
    return values


@settings(max_examples=40, deadline=None)
@given(graph=networks(14), data=st.data())
def test_parts_of_any_plan_compute_what_the_model_does(graph: Graph, data: st.DataObject) -> None:
    away = data.draw(st.sets(st.sampled_from([node.name for node in graph.nodes])))
    plan = Plan(graph.digest, NPU, {name: Override(CPU, "drawn") for name in away})
    try:
        parts = parts_by_plan(graph, plan)
    except PlanError:
        return
    feeds = _feeds(graph)
    whole, made = _run(graph, feeds), _in_a_row(parts, feeds)
    for name in graph.outputs:
        np.testing.assert_allclose(made[name], whole[name], rtol=1e-4, atol=1e-4)
    assert parts_error(graph, parts, [feeds]) < 1e-4
    ends = [part for part in (parts.before, parts.after) if part is not None]
    assert all(node.name in away for part in ends for node in part.nodes)
    placed = plan_of_part(plan, parts.core)
    placed.check(parts.core)
    assert all(placed.placement(node.name) == plan.placement(node.name) for node in parts.core.nodes)


@settings(max_examples=30, deadline=None)
@given(graph=networks(14), data=st.data())
def test_parts_behind_any_tensor_compute_what_the_model_does(graph: Graph, data: st.DataObject) -> None:
    made = [name for node in graph.nodes for name in node.outputs if name and graph.consumers.get(name)]
    if not made:
        return
    parts = parts_at(graph, sorted(data.draw(st.sets(st.sampled_from(made), min_size=1))))
    feeds = _feeds(graph)
    whole, found = _run(graph, feeds), _in_a_row(parts, feeds)
    for name in graph.outputs:
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-4, atol=1e-4)


def _detector() -> Graph:
    """Return boxes and scores in one output, behind two convolutions."""
    net = Network(5)
    trunk = net.op("Relu", net.conv(net.input("x", 1, 3, 6, 6), 8, 3))
    boxes, scores = net.conv(trunk, 4), net.op("Sigmoid", net.conv(trunk, 2))
    return net.graph(net.op("Concat", net.op("Exp", boxes), scores, shape=(1, 6, 6, 6), axis=1))


def test_the_branches_of_a_head_become_outputs() -> None:
    graph = _detector()
    cut = head_tensors(graph)
    assert [graph.producers[name].op for name in cut] == ["Conv", "Conv"]
    parts = parts_at(graph, cut)
    assert parts.core.outputs == cut
    assert parts.after is not None
    assert sorted(node.op for node in parts.after.nodes) == ["Concat", "Exp", "Sigmoid"]
    assert parts_error(graph, parts, [_feeds(graph)]) == 0.0


def test_a_part_keeps_the_ranges_of_its_tensors() -> None:
    graph = _detector()
    parts = parts_at(graph, head_tensors(graph))
    ranges = Ranges(graph.digest, "minmax", 2, {name: Range(0.0, 1.0) for name in graph.types}, {"x": (0.0,) * 3})
    part = ranges_of_part(ranges, parts.core)
    assert part.graph_digest == parts.core.digest
    assert set(part.tensors) == set(graph.types) & set(parts.core.types)
    assert part.means == ranges.means


def test_what_is_no_cut_is_refused() -> None:
    graph = _detector()
    with pytest.raises(PlanError, match="neither the beginning nor the end"):
        parts_by_plan(graph, Plan(graph.digest, NPU))
    with pytest.raises(PlanError, match="nothing is left for the accelerator"):
        parts_by_plan(graph, Plan(graph.digest, CPU))
    with pytest.raises(PlanError, match="outputs already"):
        parts_at(graph, graph.outputs)
    with pytest.raises(PlanError, match="no node makes"):
        parts_at(graph, ["nowhere"])
    net = Network(1)
    with pytest.raises(PlanError, match="no head"):
        head_tensors(net.graph(net.conv(net.input("x", 1, 3, 4, 4), 2)))
