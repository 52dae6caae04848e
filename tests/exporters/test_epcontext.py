"""The compiled model as one ONNX file: plain ONNX Runtime gives what the session gives."""

from __future__ import annotations

import needs
import numpy as np
import onnx
import onnxruntime
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backends.reference import run_graph
from dovetail.bundle import Bundle
from dovetail.compile import CompileRequest, compile_model
from dovetail.errors import CompileError
from dovetail.exporters.epcontext import context_sources, to_epcontext
from dovetail.ir import AnyArray, Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Range, Ranges, quantize
from dovetail.runtime import open_session
from dovetail.testing.networks import Network

FEED = {"x": np.random.default_rng(0).uniform(-1, 1, (1, 4, 8, 8)).astype(np.float32)}


def _graph() -> Graph:
    net = Network()
    made = net.input("x", 1, 4, 8, 8)
    for _ in range(3):
        made = net.op("Relu", net.conv(made, 4, 3))
    return net.graph(made)


def _bundle(*places: Placement) -> Bundle:
    graph = _graph()
    of_node = [place for place in places for _ in (0, 1)]
    moved = {node.name: Override(place, "test") for node, place in zip(graph.nodes, of_node, strict=True)}
    everything = tuple(tensor for node in graph.nodes for tensor in node.outputs)
    values: dict[str, AnyArray] = {**FEED, **run_graph(graph.evolve(outputs=everything), FEED)}
    limits = {name: Range(float(values[name].min()), float(values[name].max())) for name in ("x", *everything)}
    ranges = Ranges(graph.digest, "minmax", 1, limits)
    cut = partition(quantize(graph, Plan(graph.digest, places[0], moved), ranges))
    return compile_model(cut, CompileRequest(CompileOptions(threads=1)))


def _float(*targets: str) -> Bundle:
    return _bundle(*(Placement(target, Precision.FP32) for target in targets))


def _same(bundle: Bundle, session: onnxruntime.InferenceSession) -> None:
    with open_session(bundle) as ours:
        expected = ours.run(FEED).outputs
    for name, value in zip(expected, session.run(list(expected), FEED), strict=True):
        np.testing.assert_allclose(value, expected[name], atol=1e-4)


def test_plain_onnx_runtime_runs_it() -> None:
    bundle = _float("cpu", "ort:CPU", "openvino:CPU")
    model = to_epcontext(bundle)
    onnx.checker.check_model(model, full_check=True)
    assert context_sources(model) == ()
    _same(bundle, onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]))


def test_inner_names_do_not_meet() -> None:
    model = to_epcontext(_float("cpu", "ort:CPU", "cpu"))
    made = [name for node in model.graph.node for name in node.output]
    assert len(set(made)) == len(made)
    nodes = [node.name for node in model.graph.node]
    assert len(set(nodes)) == len(nodes)


def test_a_blob_without_onnx_inside_is_refused() -> None:
    with pytest.raises(CompileError, match=r"partition 1 \(reference\): .* has no place in an ONNX file"):
        to_epcontext(_float("cpu", "reference", "cpu"))


def test_a_vendors_blob_sits_in_an_epcontext_node() -> None:
    onnxruntime_qnn = needs.package("onnxruntime_qnn")
    npu, cpu = Placement("qnn:v75", Precision.U8), Placement("cpu", Precision.FP32)
    bundle = _bundle(cpu, npu, cpu)
    model = to_epcontext(bundle)
    assert context_sources(model) == ("QNN",)
    options = onnxruntime.SessionOptions()
    devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == "QNN"]
    settings = {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), "htp_arch": "75", "soc_model": "57"}
    options.add_provider_for_devices(devices, settings)
    _same(bundle, onnxruntime.InferenceSession(model.SerializeToString(), options, enable_fallback=0))
    with pytest.raises(Exception, match="QNN"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
