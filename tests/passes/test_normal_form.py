"""Passes keep the outputs of a network, its interface and the origin of its nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.passes import NORMAL_FORM, Pass, RemoveDeadCode, normalize
from dovetail.testing.running import random_feeds, relative_difference, run_graph
from dovetail.testing.strategies import Build, float_graphs, quantized_graphs


def _same_outputs(one: Graph, other: Graph, tolerance: float = 1e-4) -> None:
    feeds = random_feeds(one)
    # ONNX Runtime's own optimiser removes a Q/DQ pair between two others, which changes values by one step.
    exact = tolerance == 0.0
    outputs = run_graph(one, feeds, optimise=not exact), run_graph(other, feeds, optimise=not exact)
    for before, after in zip(*outputs, strict=True):
        assert before.shape == after.shape
        assert relative_difference(before, after) <= tolerance


@given(float_graphs())
@settings(max_examples=150, deadline=None)
def test_normal_form_computes_the_same(graph: Graph) -> None:
    normal = normalize(graph)
    assert (normal.inputs, normal.outputs) == (graph.inputs, graph.outputs)
    assert len(normal.nodes) <= len(graph.nodes)
    _same_outputs(graph, normal)


@pytest.mark.parametrize("step", NORMAL_FORM, ids=lambda step: step.name)
@given(graph=float_graphs())
@settings(max_examples=40, deadline=None)
def test_each_pass_computes_the_same(step: Pass, graph: Graph) -> None:
    _same_outputs(graph, step(graph))


@given(quantized_graphs())
@settings(max_examples=40, deadline=None)
def test_quantised_networks_are_left_alone_or_computed_exactly(graph: Graph) -> None:
    _same_outputs(graph, normalize(graph), 0.0)


@given(float_graphs())
@settings(max_examples=60, deadline=None)
def test_live_nodes_stay_in_some_origin(graph: Graph) -> None:
    live = RemoveDeadCode()(graph)
    kept = {name for node in normalize(graph).nodes for name in node.origin}
    gone = {node.name for node in live.nodes} - kept
    # A node may vanish only where nothing is left to carry its name: the whole graph was a chain of no-ops.
    assert not gone or not normalize(graph).nodes


@given(float_graphs())
@settings(max_examples=60, deadline=None)
def test_surviving_tensors_keep_names_of_the_source(graph: Graph) -> None:
    normal = normalize(graph)
    made = {name for node in graph.nodes for name in node.outputs}
    assert {name for node in normal.nodes for name in node.outputs} <= made


@given(float_graphs())
@settings(max_examples=150, deadline=None)
def test_normal_form_is_a_fixpoint(graph: Graph) -> None:
    normal = normalize(graph)
    assert normalize(normal) == normal


def _conv_bn_add() -> Graph:
    build = Build(np.random.default_rng(0))
    build.types["x"] = TensorType(DType.F32, (1, 3, 4, 4))
    build.add("Conv", build.floats(8, 3, 1, 1), shape=(1, 8, 4, 4))
    values = [build.floats(8), build.floats(8), build.floats(8), build.floats(8, low=0.1)]
    build.add("BatchNormalization", *values)
    build.add("Add", build.floats(8, 1, 1))
    build.add("Relu")
    return build.graph((build.last,))


def test_conv_takes_in_batchnorm_and_bias_and_the_last_name() -> None:
    graph = _conv_bn_add()
    normal = normalize(graph)
    assert [node.op for node in normal.nodes] == ["Conv", "Relu"]
    conv = normal.nodes[0]
    assert conv.origin == ("Conv_0", "BatchNormalization_1", "Add_2")
    assert conv.outputs == graph.node("Add_2").outputs
    _same_outputs(graph, normal)


def test_a_shared_convolution_keeps_its_output() -> None:
    graph = _conv_bn_add()
    both = graph.evolve(outputs=(*graph.outputs, graph.node("Conv_0").outputs[0]))
    normal = normalize(both)
    assert "BatchNormalization" in [node.op for node in normal.nodes]
    _same_outputs(both, normal)


def test_a_shared_weight_is_not_changed_under_its_other_reader() -> None:
    build = Build(np.random.default_rng(1))
    build.types["x"] = TensorType(DType.F32, (1, 3, 4, 4))
    weight = build.floats(3, 3, 1, 1)
    build.add("Conv", weight)
    build.add("Mul", build.floats(3, 1, 1))
    build.add("Conv", weight)
    graph = build.graph((build.last,))
    normal = normalize(graph)
    assert [node.op for node in normal.nodes] == ["Conv", "Conv"]
    _same_outputs(graph, normal)


def test_matmul_becomes_gemm_only_for_matrices() -> None:
    for rank, expected in ((2, ["Gemm"]), (3, ["MatMul", "Add"])):
        build = Build(np.random.default_rng(2))
        shape = (5, 3) if rank == 2 else (2, 5, 3)
        build.types["x"] = TensorType(DType.F32, shape)
        build.add("MatMul", build.floats(3, 4), shape=(*shape[:-1], 4))
        build.add("Add", build.floats(4))
        graph = build.graph((build.last,))
        normal = normalize(graph)
        assert [node.op for node in normal.nodes] == expected
        _same_outputs(graph, normal)


def test_padding_other_than_zero_stays() -> None:
    for value, expected in ((0.0, ["Conv"]), (1.0, ["Pad", "Conv"])):
        build = Build(np.random.default_rng(3))
        build.types["x"] = TensorType(DType.F32, (1, 2, 4, 4))
        pads, fill = build.integers(0, 0, 1, 1, 0, 0, 1, 1), build.constant(np.array(value, dtype=np.float32))
        build.add("Pad", pads, fill, shape=(1, 2, 6, 6))
        build.add("Conv", build.floats(2, 2, 3, 3), shape=(1, 2, 4, 4))
        graph = build.graph((build.last,))
        normal = normalize(graph)
        assert [node.op for node in normal.nodes] == expected
        _same_outputs(graph, normal)


def test_dead_branches_go() -> None:
    graph = _conv_bn_add()
    dead = Node("dead", "Sigmoid", ("x",), ("unused",))
    wider = graph.evolve(nodes=(*graph.nodes, dead), types={**graph.types, "unused": graph.types["x"]})
    assert "dead" not in [node.name for node in normalize(wider).nodes]
