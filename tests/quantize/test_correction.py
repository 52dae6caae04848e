"""Bias correction, against the mean of what rounded weights give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.backends.reference import run_graph
from dovetail.ir import AnyArray, Graph
from dovetail.quantize.correction import bias_shift
from dovetail.testing.networks import Network


def _outputs(graph: Graph, inputs: list[AnyArray]) -> AnyArray:
    (name,) = graph.outputs
    return np.concatenate([np.asarray(run_graph(graph, {"x": item})[name]) for item in inputs])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    groups=st.sampled_from([1, 2, 4]),
    stride=st.integers(1, 2),
    pad=st.integers(0, 2),
    dilation=st.integers(1, 2),
)
def test_the_shift_is_the_mean_of_what_the_error_adds(
    seed: int, groups: int, stride: int, pad: int, dilation: int
) -> None:
    rng = np.random.default_rng(seed)
    error = rng.normal(size=(8, 4 // groups, 3, 3)).astype(np.float32)
    net = Network(seed)
    attributes = {"group": groups, "strides": (stride, stride), "dilations": (dilation, dilation), "pads": (pad,) * 4}
    made = tuple((size + 2 * pad - 2 * dilation - 1) // stride + 1 for size in (7, 6))
    weight = net.constant(error)
    graph = net.graph(net.op("Conv", net.input("x", 1, 4, 7, 6), weight, shape=(1, 8, *made), **attributes))
    # Every channel is constant, so that its mean says everything.
    mean = rng.normal(size=4).astype(np.float32)
    outputs = _outputs(graph, [np.broadcast_to(mean[None, :, None, None], (1, 4, 7, 6)).copy()])
    shift = bias_shift(graph, graph.nodes[0], error.astype(np.float64), mean.astype(np.float64))
    assert shift is not None
    np.testing.assert_allclose(shift, outputs.mean(axis=(0, 2, 3)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("turned", [0, 1])
def test_the_shift_of_a_product(turned: int) -> None:
    rng = np.random.default_rng(turned)
    error = rng.normal(size=(5, 3)).astype(np.float32)
    net = Network(0)
    weight = net.constant(error.T if not turned else error)
    graph = net.graph(net.op("Gemm", net.input("x", 1, 3), weight, shape=(1, 5), transB=turned, alpha=0.5))
    mean = rng.normal(size=3).astype(np.float32)
    stored = graph.constants[graph.nodes[0].inputs[1]].astype(np.float64)
    shift = bias_shift(graph, graph.nodes[0], stored, mean.astype(np.float64))
    assert shift is not None
    np.testing.assert_allclose(shift, _outputs(graph, [mean[None]])[0], rtol=1e-4, atol=1e-5)


def test_other_operators_have_none() -> None:
    net = Network(0)
    graph = net.graph(net.op("Relu", net.input("x", 1, 3)))
    assert bias_shift(graph, graph.nodes[0], np.zeros((1, 1)), np.zeros(3)) is None
