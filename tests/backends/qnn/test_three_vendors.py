"""One model over three vendors' stacks at once: ONNX Runtime, OpenVINO, and an NPU."""

from __future__ import annotations

import needs
import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.reference import run_graph
from dovetail.compile import CompileRequest, compile_model
from dovetail.ir import AnyArray, Graph
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Range, Ranges, quantize
from dovetail.runtime import open_session
from dovetail.testing.networks import Network

FEED = {"x": np.random.default_rng(0).uniform(-1, 1, (1, 4, 16, 16)).astype(np.float32)}


def _graph() -> Graph:
    net = Network()
    made = net.input("x", 1, 4, 16, 16)
    for _ in range(4):
        made = net.op("Relu", net.conv(made, 8, 3))
    return net.graph(made)


def _cut(graph: Graph, npu: str) -> PartitionedGraph:
    places = [
        Placement("ort:CPU", Precision.FP32),
        Placement("openvino:CPU", Precision.FP32),
        Placement(npu, Precision.U8),
        Placement("cpu", Precision.FP32),
    ]
    of_node = [place for place in places for _ in (0, 1)]
    moved = {node.name: Override(place, "test") for node, place in zip(graph.nodes, of_node, strict=True)}
    everything = tuple(tensor for node in graph.nodes for tensor in node.outputs)
    values: dict[str, AnyArray] = {**FEED, **run_graph(graph.evolve(outputs=everything), FEED)}
    limits = {name: Range(float(values[name].min()), float(values[name].max())) for name in ("x", *everything)}
    return partition(quantize(graph, Plan(graph.digest, places[0], moved), Ranges(graph.digest, "minmax", 1, limits)))


NPUS = [
    pytest.param("vsi:v853", "npusim", id="VeriSilicon, our simulator"),
    pytest.param("vsi:v853", "vsi", id="VeriSilicon, the vendor's simulator", marks=pytest.mark.sdk),
    pytest.param("qnn:v75", "qnn", id="Qualcomm, the vendor's emulator"),
]


@pytest.mark.parametrize(("npu", "backend"), NPUS)
def test_three_vendors_compute_one_model_and_the_profile_names_them(npu: str, backend: str) -> None:
    if backend == "qnn":
        needs.package("onnxruntime_qnn")
    if backend == "vsi":
        needs.verisilicon()
    graph = _graph()
    request = CompileRequest(CompileOptions(threads=1), {npu: backend})
    with open_session(compile_model(_cut(graph, npu), request)) as session:
        run = session.run(FEED)
    expected = run_graph(graph, FEED)
    for name in graph.outputs:
        scale = float(np.abs(expected[name]).max())
        np.testing.assert_allclose(run.outputs[name], expected[name], atol=0.02 * scale)
    targets = [item.target for item in run.timings]
    for target in ("ort:CPU", "openvino:CPU", npu, "cpu"):
        assert target in targets
    assert len({item.device for item in run.timings}) == 4
    assert run.busy_ns + run.idle_ns == run.elapsed_ns
