"""Files that hold integers carry the biases of a healed plan: read back by the programs that run them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter
from onnx import numpy_helper

from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import backend, find_target
from dovetail.backends.litert.writer import to_tflite
from dovetail.backends.reference import run_graph
from dovetail.compare.steps import compare_steps
from dovetail.data import Sample
from dovetail.formats import WriteRequest, find_format
from dovetail.ir import AnyArray, DType, Graph
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import QuantizedGraph, calibrate, quantize
from dovetail.repair import HealedModel, repair
from dovetail.testing.agreement import load_on
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples


def _network() -> Graph:
    net = Network(11)
    made = net.op("Relu", net.conv(net.input("x", 1, 3, 6, 6), 8, 3))
    deep = net.op("Conv", made, net.uniform(8, 1, 3, 3), net.uniform(8), group=8, pads=(1, 1, 1, 1))
    pooled = net.op(
        "MaxPool", net.conv(net.op("Relu", deep), 8), shape=(1, 8, 3, 3), kernel_shape=(2, 2), strides=(2, 2)
    )
    flat = net.op("Reshape", pooled, net.constant([1, 72]), shape=(1, 72))
    return net.graph(net.op("Gemm", flat, net.uniform(5, 72), net.uniform(5), shape=(1, 5), transB=1))


def _healed(place: str) -> tuple[HealedModel, Plan]:
    graph = _network()
    rng = np.random.default_rng(2)
    samples = [Sample(str(index), {"x": rng.normal(size=(1, 3, 6, 6)).astype(np.float32) + 1}) for index in range(8)]
    start = HealedModel(graph, calibrate(graph, HeldSamples(samples)))
    healed = repair(start, ["equalise", "bias-correction"], per_channel=place.endswith("pc"))
    assert healed.kinds == ("equalise", "bias-correction")
    return healed, Plan(healed.graph.digest, parse_placement(place), {}, healed.records)


def _biases(quantized: QuantizedGraph) -> dict[str, AnyArray]:
    constants = quantized.graph.constants
    return {name: value for name, value in constants.items() if quantized.graph.types[name].dtype is DType.I32}


def _feed() -> dict[str, AnyArray]:
    return {"x": np.random.default_rng(3).normal(size=(1, 3, 6, 6)).astype(np.float32) + 1}


def _require_corrected(healed: HealedModel, plan: Plan, biases: dict[str, AnyArray]) -> None:
    """Check that without means the biases would be others: what is compared holds corrections."""
    ranges = healed.calibration.ranges
    plain = _biases(quantize(healed.graph, plan, replace(ranges, means={})))
    assert len(biases) == len(plain) == 4
    assert sum(not np.array_equal(biases[name], plain[name]) for name in biases) >= 3


@pytest.mark.parametrize("place", ["reference@u8", "reference@i8pc"])
def test_qdq_files_hold_the_corrected_integers_and_compute_them(place: str) -> None:
    healed, plan = _healed(place)
    quantized = quantize(healed.graph, plan, healed.calibration.ranges)
    biases = _biases(quantized)
    _require_corrected(healed, plan, biases)
    content = find_format("onnx-qdq").write(WriteRequest(plan, healed.graph, quantized=quantized)).content
    stored = {item.name: numpy_helper.to_array(item) for item in onnx.ModelProto.FromString(content).graph.initializer}
    for name, value in biases.items():
        np.testing.assert_array_equal(stored[name], value)
    (made,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, _feed())
    (output,) = quantized.graph.outputs
    kind = quantized.graph.types[quantized.graph.producers[output].inputs[0]]
    assert kind.quant is not None
    np.testing.assert_allclose(made, run_graph(quantized.graph, _feed())[output], atol=1.01 * kind.quant.scale[0])


def test_tflite_files_hold_the_corrected_integers_and_compute_them() -> None:
    healed, plan = _healed("litert:CPU@i8pc")
    quantized = quantize(healed.graph, plan, healed.calibration.ranges)
    biases = _biases(quantized)
    _require_corrected(healed, plan, biases)
    interpreter = Interpreter(model_content=to_tflite(quantized.graph))
    interpreter.allocate_tensors()
    indices = {item["name"]: item["index"] for item in interpreter.get_tensor_details()}
    for name, value in biases.items():
        np.testing.assert_array_equal(interpreter.get_tensor(indices[name]), value)
    options = CompileOptions(threads=1)
    litert = load_on(backend("litert"), quantized.graph, find_target("litert:CPU"), options)
    judge = load_on(backend("reference"), quantized.graph, find_target("reference:tflite"), CompileOptions())
    (output,) = quantized.graph.outputs
    kind = quantized.graph.types[quantized.graph.producers[output].inputs[0]]
    assert kind.quant is not None
    steps = [np.rint(item.run(_feed())[output] / kind.quant.scale[0]).astype(np.int64) for item in (litert, judge)]
    assert compare_steps(*steps).largest <= 1
