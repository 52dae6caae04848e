"""What import does to a model, judged by ONNX Runtime on the original."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper, parser

from dovetail.errors import LoadError
from dovetail.importers import LoadOptions, load_model, load_onnx
from dovetail.ir import AnyArray, Graph, graph_to_bytes, parse_graph, print_graph
from dovetail.testing.running import random_feeds, run_graph, run_model


def _model(body: str, opset: int, *domains: str) -> ModelProto:
    extra = "".join(f', "{domain}": 1' for domain in domains)
    model: ModelProto = parser.parse_model(f'<ir_version: 7, opset_import: ["": {opset}{extra}]> {body}')
    return model


def _check(model: ModelProto, tolerance: float = 1e-6, optimise: bool = True) -> Graph:
    """Import a model and compare its outputs with those of the original on random inputs."""
    graph = load_onnx(model)
    assert parse_graph(print_graph(graph)) == graph
    feeds = random_feeds(graph, batch=2)
    expected = run_model(model, feeds, optimise)
    for want, got in zip(expected, run_graph(graph, feeds, optimise), strict=True):
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return graph


def _ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


OLD = {
    "softmax over the last axis": (
        7,
        "(float[N,3,4] x) => (float[N,3,4] y) { y = Softmax <axis = 2> (x) }",
        ["Softmax"],
    ),
    "softmax over inner axes": (11, "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }", None),
    "softmax by default": (9, "(float[N,3] x) => (float[N,3] y) { y = Softmax(x) }", ["Softmax"]),
    "clip with attributes": (7, "(float[3] x) => (float[3] y) { y = Clip <min = -0.5, max = 0.5> (x) }", ["Clip"]),
    "upsample": (
        7,
        "(float[1,2,3,3] x) => (float[1,2,6,6] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) }",
        ["Resize"],
    ),
    "upsample with a scale input": (
        9,
        "(float[1,2,3,3] x) => (float[1,2,6,6] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample(x, s) }",
        ["Resize"],
    ),
    "resize": (
        10,
        """(float[1,2,4,4] x) => (float[1,2,8,8] y) <float[4] s = {1, 1, 2, 2}>
           { y = Resize <mode = "linear"> (x, s) }""",
        ["Resize"],
    ),
    "upsample linearly": (
        9,
        """(float[1,1,2,3] x) => (float[1,1,4,6] y) <float[4] s = {1, 1, 2, 2}>
           { y = Upsample <mode = "linear"> (x, s) }""",
        ["Resize"],
    ),
    "shrink to the nearest": (
        10,
        "(float[1,1,5,7] x) => (float[1,1,2,4] y) <float[4] s = {1, 1, 0.5, 0.6}> { y = Resize(x, s) }",
        ["Resize"],
    ),
    "region alignment": (
        10,
        """(float[1,1,6,6] x) => (float[1,1,2,2] y) <float[1,4] r = {0.5, 1, 4, 5}, int64[1] i = {0}>
           { y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, r, i) }""",
        ["RoiAlign"],
    ),
    "dropout": (7, "(float[3] x) => (float[3] y) { d = Dropout <ratio = 0.3> (x) y = Relu(d) }", None),
    "split with sizes": (
        11,
        "(float[2,6] x) => (float[2,2] a, float[2,4] b) { a, b = Split <axis = 1, split = [2, 4]> (x) }",
        ["Split"],
    ),
    "split evenly": (13, "(float[2,6] x) => (float[2,3] a, float[2,3] b) { a, b = Split <axis = 1> (x) }", ["Split"]),
    "squeeze and unsqueeze": (
        9,
        "(float[1,3] x) => (float[3,1] y) { a = Squeeze <axes = [0]> (x) y = Unsqueeze <axes = [1]> (a) }",
        ["Squeeze", "Unsqueeze"],
    ),
    "reduce with axes": (
        11,
        "(float[2,3,4] x) => (float[2,1,4] y) { y = ReduceMean <axes = [1], keepdims = 1> (x) }",
        ["ReduceMean"],
    ),
    "pad with attributes": (
        9,
        "(float[1,1,2,2] x) => (float[1,1,4,3] y) { y = Pad <pads = [0,0,1,1,0,0,1,0], value = 0.5> (x) }",
        ["Pad"],
    ),
    "slice with attributes": (
        9,
        "(float[4,4] x) => (float[2,4] y) { y = Slice <axes = [0], starts = [1], ends = [3]> (x) }",
        ["Slice"],
    ),
    "topk with an attribute": (
        9,
        "(float[2,5] x) => (float[2,2] v, int64[2,2] i) { v, i = TopK <k = 2> (x) }",
        ["TopK"],
    ),
    "batch normalisation": (
        7,
        """(float[2,2,3] x) => (float[2,2,3] y)
           <float[2] s = {1, 2}, float[2] b = {0.5, 0}, float[2] m = {0.1, 0.2}, float[2] v = {1, 4}>
           { y = BatchNormalization <epsilon = 0.001> (x, s, b, m, v) }""",
        ["BatchNormalization"],
    ),
    "sum and pow": (
        8,
        "(float[3] x) => (float[3] y) <float e = {2}> { s = Sum(x, x, x) y = Pow(s, e) }",
        ["Sum", "Pow"],
    ),
    "gemm with a bias": (
        7,
        "(float[2,3] x) => (float[2,2] y) <float[3,2] w = {1,2,3,4,5,6}, float[2] b = {1,2}> { y = Gemm(x, w, b) }",
        ["Gemm"],
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_older_opsets_mean_the_same(name: str) -> None:
    opset, body, ops = OLD[name]
    graph = _check(_model("g " + body, opset))
    if ops is not None:
        assert _ops(graph) == ops


def test_an_operator_that_changed_meaning_silently_is_not_taken_as_it_is() -> None:
    """GroupNormalization 18 scales groups, 21 channels, under one signature."""
    body = """(float[1,4,2] x) => (float[1,4,2] y) <float[2] s = {1, 2}, float[2] b = {0, 1}>
              { y = GroupNormalization <num_groups = 2> (x, s, b) }"""
    with pytest.raises(LoadError, match="GroupNormalization"):
        load_onnx(_model("g " + body, 18))


def test_initialisers_that_are_inputs_too_are_constants() -> None:
    model = _model("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", 9)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    assert load_onnx(model).inputs == ("x",)


def test_wrong_declared_shapes_are_inferred_again() -> None:
    body = "g (float[1,3,4,4] x) => (float[9,9] y) <float[7] t> { t = Relu(x) y = Neg(t) }"
    graph = load_onnx(_model(body, 13))
    assert graph.types["t"].shape == graph.types["y"].shape == (1, 3, 4, 4)


def test_symbolic_sizes_are_kept_and_can_be_fixed() -> None:
    model = _model(
        """g (float[batch,3,4] x) => (float[batch,12] y) <int64[1] z = {0}, int64[1] m = {-1}> {
             s = Shape(x)  n = Gather(s, z)  t = Concat <axis = 0> (n, m)  y = Reshape(x, t)
           }""",
        13,
    )
    graph = _check(model)
    assert _ops(graph) == ["Reshape"]
    assert graph.types["y"].shape == ("batch", 12)
    fixed = load_onnx(model, LoadOptions(shapes={"x": (5, 3, 4)}))
    assert fixed.types["y"].shape == (5, 12)


def test_shapes_that_are_computed_in_part_are_followed() -> None:
    body = """g (float[batch,3] x) => (float[batch,5,3] y) <int64[1] z = {0}, int64[1] five = {5}, int64[1] one = {1}> {
      s = Shape(x)  n = Gather(s, z)  t = Concat <axis = 0> (n, five, one)
      c = ConstantOfShape(t)  u = Unsqueeze(x, one)  e = Expand(u, t)  y = Add(c, e)
    }"""
    graph = _check(_model(body, 13))
    assert [graph.types[name].shape for name in "cey"] == [("batch", 5, 1), ("batch", 5, 3), ("batch", 5, 3)]


def test_names_are_made_unique_and_origins_keep_the_source() -> None:
    model = _model("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }", 13)
    model.graph.node[0].name = model.graph.node[1].name = "same"
    graph = load_onnx(model)
    assert len({node.name for node in graph.nodes}) == 3
    assert all(node.name for node in graph.nodes)
    assert [node.origin for node in graph.nodes[:2]] == [("same",), ("same",)]


def test_functions_are_inlined() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "own": 1]>
           g (float[N,4] x) => (float[N,4] y) { a = own.swish(x) y = own.swish(a) }
           <domain: "own", opset_import: ["": 17]> swish (a) => (b) { s = Sigmoid(a) b = Mul(a, s) }"""
    )
    assert _ops(_check(model)) == ["Sigmoid", "Mul", "Sigmoid", "Mul"]


def test_newer_operators_are_expanded_by_their_definition() -> None:
    body = "g (float[2,3,4] x) => (float[2,3,4] y) <float[4] s = {1, 2, 3, 4}> { y = RMSNormalization(x, s) }"
    graph = load_onnx(_model(body, 23))
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * np.arange(1, 5)
    np.testing.assert_allclose(run_graph(graph, {"x": x})[0], expected, rtol=1e-5)


LOOP = """g (float[2] x, int64 trips) => (float[2] y, float[K,2] all) <bool t = {1}, float[2] step = {0.5, 2.0}> {
  y, all = Loop <body = b (int64 i, bool c, float[2] s) => (bool o, float[2] next, float[2] seen)
    { o = Identity(c)  d = Mul(step, x)  next = Add(s, d)  seen = Relu(next) }> (trips, t, x)
}"""


def test_loops_keep_their_body_and_what_it_captures() -> None:
    model = _model(LOOP, 13)
    graph = load_onnx(model)
    body = graph.nodes[-1].bodies()[0]
    assert set(body.captures) == {"step", "x"}
    feeds: dict[str, AnyArray] = {"x": np.array([1, -1], np.float32), "trips": np.array(3, np.int64)}
    for want, got in zip(run_model(model, feeds), run_graph(graph, feeds), strict=True):
        np.testing.assert_array_equal(want, got)
    assert parse_graph(print_graph(graph)) == graph
    assert graph_to_bytes(parse_graph(print_graph(graph))) == graph_to_bytes(graph)


def test_branches_with_a_constant_condition_are_inlined() -> None:
    body = """g (float[2,3] x) => (float[2,3] y) <int64[1] one = {1}, int64 three = {3}> {
      s = Shape(x)  n = Gather(s, one)  k = Squeeze(n)  c = Equal(k, three)
      r = If (c) <then_branch = t () => (float[2,3] p) { p0 = Relu(x) p = Neg(p0) },
                  else_branch = e () => (float[2,3] q) { q = Identity(x) }>
      y = Abs(r)
    }"""
    graph = _check(_model(body, 13))
    assert _ops(graph) == ["Relu", "Neg", "Abs"]


def test_the_same_names_in_both_branches_do_not_clash() -> None:
    body = """g (float[2] x, bool c) => (float[2] y) {
      y = If (c) <then_branch = t () => (float[2] r) { m = Relu(x) r = Neg(m) },
                  else_branch = e () => (float[2] r) { m = Abs(x) r = Neg(m) }>
    }"""
    _check(_model(body, 13))


def test_control_flow_inside_control_flow() -> None:
    body = """g (float[2] x, bool c, bool d) => (float[2] y) <float[2] w = {1, 2}> {
      z = Exp(x)
      y = If (c) <then_branch = t () => (float[2] p) {
                    p = If (d) <then_branch = tt () => (float[2] pp) { pp = Add(z, w) },
                                else_branch = te () => (float[2] pq) { pq = Identity(z) }> },
                  else_branch = e () => (float[2] q) { q = Sub(z, w) }>
    }"""
    _check(_model(body, 13))


def test_constant_nodes_are_folded_with_what_depends_on_them_alone() -> None:
    body = """g (float[2,2] x) => (float[2,2] y) {
      a = Constant <value_floats = [1.0, 2.0]> ()  b = Constant <value_float = 3.0> ()
      c = Mul(a, b)  d = Exp(c)  y = Add(x, d)
    }"""
    graph = _check(_model(body, 13))
    assert _ops(graph) == ["Add"]


def test_random_operators_are_not_folded() -> None:
    body = "g (float[2] x) => (float[2] y) { r = RandomNormal <shape = [2]> () y = Add(x, r) }"
    assert _ops(load_onnx(_model(body, 13))) == ["RandomNormal", "Add"]


def test_load_model_reads_dovetail_graphs_too(tmp_path: Path) -> None:
    graph = load_onnx(_model("g (float[2] x) => (float[2] y) { y = Relu(x) }", 13))
    (tmp_path / "graph.dvg").write_bytes(graph_to_bytes(graph))
    assert load_model(tmp_path / "graph.dvg") == graph


def test_the_model_given_is_not_changed() -> None:
    model = _model(LOOP, 13)
    before = model.SerializeToString()
    load_onnx(model)
    assert model.SerializeToString() == before
    onnx.checker.check_model(model)


def test_an_unreachable_domain_import_does_no_harm() -> None:
    model = _model("g (float[2] x) => (float[2] y) { y = Relu(x) }", 13)
    model.opset_import.append(helper.make_opsetid("com.acme", 3))
    assert _ops(load_onnx(model)) == ["Relu"]
