"""The float graph with only activations rounded: every tensor, and the outputs too."""

from __future__ import annotations

import numpy as np

from dovetail.backends.reference import run_graph
from dovetail.ir.precision import Precision
from dovetail.quantize.ranges import Range, Ranges
from dovetail.repair import rounded_activations
from dovetail.testing.networks import Network


def test_outputs_are_rounded_and_keep_their_names() -> None:
    net = Network(1)
    inner = net.conv(net.input("x", 1, 3, 5, 5), 4)
    graph = net.graph(inner, net.op("Relu", inner))
    ranges = Ranges(graph.digest, "minmax", 1, {name: Range(0.0, 255.0) for name in graph.types})
    x = {"x": np.random.default_rng(3).uniform(0, 200, (1, 3, 5, 5)).astype(np.float32)}
    made = run_graph(rounded_activations(graph, ranges, Precision.U8), x)
    for name in graph.outputs:
        assert np.array_equal(made[name], np.rint(made[name]))
        assert made[name].any()
