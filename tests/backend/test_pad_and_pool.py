"""A defect of ONNX Runtime that the backends must not pass on."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions, Fidelity, Signature
from dovetail.backend.registry import backend, find_device, find_target
from dovetail.testing.networks import Network


@pytest.mark.parametrize(("name", "target"), [("cpu", "cpu"), ("npusim", "vsi:v853")])
def test_zeros_around_a_maximum_count(name: str, target: str) -> None:
    net = Network()
    padded = net.op("Pad", net.input("x", 1, 1, 2, 2), net.constant([0, 0, 1, 1, 0, 0, 1, 1]), shape=(1, 1, 4, 4))
    graph = net.graph(net.op("MaxPool", padded, shape=(1, 1, 3, 3), kernel_shape=(2, 2)))
    signature = Signature({"x": graph.types["x"]}, {"t1": graph.types["t1"]})
    blob = backend(name).compile(graph, find_target(target), CompileOptions(Fidelity.FAST))
    executable = find_device(name, target).load(blob, signature)
    found = executable.run({"x": np.full((1, 1, 2, 2), -1.0, np.float32)})["t1"]
    expected = np.zeros((3, 3), np.float32)
    expected[1, 1] = -1.0
    np.testing.assert_array_equal(found[0, 0], expected)
