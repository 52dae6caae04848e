"""Biases that ONNX Runtime leaves alone: sessions as users open them compute what the file says."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.data import Sample
from dovetail.exporters import to_onnx
from dovetail.exporters.onnx_biases import bias_at_risk, exact_bias, narrowed
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, find_units, parse_placement
from dovetail.quantize import calibrate, quantize
from dovetail.testing.networks import Network, networks
from dovetail.testing.planted import HeldSamples
from dovetail.testing.running import random_feeds

FORGETFUL = "WeightBiasQuantization"
"""What ONNX Runtime calls the step that rounds float weights."""
SIGNED = ("vsi:v853@i8pc", "vsi:v853@i16", "cpu@fp32")
UNSIGNED = ("vsi:v853@u8", "vsi:v853@i16", "cpu@fp32")
BYTES = ("vsi:v853@i8pc", "cpu@fp32")


def run(
    content: bytes, feeds: dict[str, AnyArray], without: list[str] | None = None, *, exact: bool = True
) -> list[AnyArray]:
    """Return what a session with ONNX Runtime's own choices gives, but for the steps that it leaves out.

    `exact`: where it would take int8 for uint8, on x64 alone, it does not.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if exact:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(content, options, disabled_optimizers=without)
    return list(session.run(None, feeds))


def quantised(graph: Graph, seed: int, places: Sequence[str]) -> Graph:
    """Return a graph of which every unit is at a drawn precision."""
    rng = random.Random(seed)
    away = {node: parse_placement(rng.choice(places)) for unit in find_units(graph).items for node in unit.nodes}
    plan = Plan(graph.digest, parse_placement(places[0]), {name: Override(at, "drawn") for name, at in away.items()})
    samples = HeldSamples([Sample(str(index), random_feeds(graph, index)) for index in range(4)])
    return quantize(graph, plan, calibrate(graph, samples).ranges).graph


def layers(*kinds: str) -> Graph:
    """Return a chain of layers with weights, with and without biases and clamps."""
    net = Network(5)
    tensor = net.input("x", 1, 3, 6, 6)
    for kind in kinds:
        channels = net.shape(tensor)[1]
        if kind == "deconv":
            weight = net.uniform(channels, 4, 2, 2)
            form = {"kernel_shape": (2, 2), "strides": (2, 2)}
            _, _, high, wide = net.shape(tensor)
            tensor = net.op("ConvTranspose", tensor, weight, shape=(1, 4, 2 * high, 2 * wide), **form)
        elif kind == "dense":
            flat = net.op("Flatten", tensor, shape=(1, int(np.prod(net.shape(tensor)[1:]))))
            width = net.shape(flat)[1]
            tensor = net.op("Gemm", flat, net.uniform(width, 5), net.uniform(5), shape=(1, 5))
        else:
            tensor = net.conv(tensor, 4, 3, bias=kind != "bare")
            tensor = net.op("Relu", tensor) if kind == "clamped" else tensor
    return normalize(net.graph(tensor))


@given(networks(), st.integers(0, 2**32 - 1))
def test_drawn_plans_mean_the_same_with_and_without_the_step_that_rounds_weights(network: Graph, seed: int) -> None:
    graph = quantised(normalize(network), seed, SIGNED if seed % 2 else UNSIGNED)
    content, feeds = to_onnx(graph).SerializeToString(), random_feeds(graph, 99)
    for one, other in zip(run(content, feeds), run(content, feeds, [FORGETFUL]), strict=True):
        np.testing.assert_array_equal(one, other)


@given(networks(), st.integers(0, 2**32 - 1))
def test_drawn_plans_of_bytes_load_as_they_are(network: Graph, seed: int) -> None:
    graph = quantised(normalize(network), seed, BYTES)
    feeds = random_feeds(graph, 99)
    assert len(run(to_onnx(graph).SerializeToString(), feeds, exact=False)) == len(graph.outputs)


@pytest.mark.parametrize("op", ["Transpose", "Reshape"])
def test_bytes_that_are_moved_in_float_load(op: str) -> None:
    net = Network()
    x = net.conv(net.input("x", 1, 3, 4, 4), 2)
    moved = {
        "Transpose": lambda: net.op("Transpose", x, shape=(1, 4, 4, 2), perm=(0, 2, 3, 1)),
        "Reshape": lambda: net.op("Reshape", x, net.constant([1, 32]), shape=(1, 32)),
    }
    graph = normalize(net.graph(net.op("Sigmoid", moved[op]())))
    plan = Plan(
        graph.digest, parse_placement("cpu@fp32"), {graph.nodes[0].name: Override(parse_placement(BYTES[0]), "")}
    )
    samples = HeldSamples([Sample("0", random_feeds(graph, 0))])
    content = to_onnx(quantize(graph, plan, calibrate(graph, samples).ranges).graph).SerializeToString()
    run(content, random_feeds(graph, 1), exact=False)


@pytest.mark.parametrize("seed", range(8))
def test_layers_of_every_kind_mean_the_same(seed: int) -> None:
    graph = quantised(layers("clamped", "bare", "deconv", "plain", "plain", "dense"), seed, SIGNED)
    content, feeds = to_onnx(graph).SerializeToString(), random_feeds(graph, 99)
    for one, other in zip(run(content, feeds), run(content, feeds, [FORGETFUL]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_step_is_there_and_rounds_what_is_not_kept_from_it() -> None:
    """Without this the tests above would say nothing."""
    net = Network(1)
    steps = TensorType(DType.I8, (1, 3, 4, 4), Quantization((0.05,), (0,)))
    x, middle = net.input("x", 1, 3, 4, 4), "q"
    net.types |= {middle: steps, "d": net.types[x]}
    net.nodes += [Node("in", "QuantizeLinear", (x,), (middle,)), Node("out", "DequantizeLinear", (middle,), ("d",))]
    made = net.conv("d", 4)
    net.types["r"] = TensorType(DType.I8, (1, 4, 4, 4), Quantization((0.05,), (0,)))
    net.nodes.append(Node("again", "QuantizeLinear", (made,), ("r",)))
    exposed = net.graph("r")
    conv = exposed.producers[made]
    assert bias_at_risk(exposed, conv) == 2
    model = to_onnx(exposed)
    (stored,) = [node for node in model.graph.node if node.name == conv.name]
    (kept,) = [node for node in model.graph.node if node.output[0] == stored.input[2]]
    assert kept.op_type == "DequantizeLinear"
    stored.input[2] = conv.inputs[2]
    feeds = random_feeds(exposed, 3)
    content = model.SerializeToString()
    (one,), (other,) = run(content, feeds), run(content, feeds, [FORGETFUL])
    assert (one != other).any()


def _between(*ops: str) -> Graph:
    """Return a graph of some operators between two sigmoids."""
    net = Network(2)
    tensor = net.op("Sigmoid", net.input("x", 1, 4, 4, 4))
    for op in ops:
        if op == "Conv":
            tensor = net.conv(tensor, 4, 1)
        elif op == "MatMul":
            tensor = net.op("Add", net.op("MatMul", tensor, net.uniform(4, 4)), net.uniform(4))
        elif op == "Transpose":
            tensor = net.op("Transpose", tensor, shape=(1, 4, 4, 4), perm=(0, 1, 3, 2))
        elif op == "Reshape":
            tensor = net.op("Reshape", tensor, net.constant([1, 4, 4, 4]), shape=(1, 4, 4, 4))
        else:
            tensor = net.op("MaxPool", tensor, kernel_shape=(1, 1))
    return net.graph(net.op("Sigmoid", tensor))


@pytest.mark.parametrize("low", ["vsi:v853@i8pc", "vsi:v853@i16"])
@pytest.mark.parametrize(
    "ops", [("Conv", "Transpose"), ("Transpose", "Conv"), ("MaxPool", "Conv"), ("Conv", "Reshape"), ("MatMul",)]
)
def test_what_moves_data_beside_a_layer_does_not_bring_pairs_to_it(ops: tuple[str, ...], low: str) -> None:
    """ONNX Runtime moves pairs past such operators, and makes a MatMul and a sum one Gemm, before it rounds."""
    graph = _between(*ops)
    ends = {node.name: Override(parse_placement(low), "") for node in graph.nodes if node.op == "Sigmoid"}
    plan = Plan(graph.digest, parse_placement("cpu@fp32"), ends)
    samples = HeldSamples([Sample(str(index), random_feeds(graph, index)) for index in range(4)])
    made = quantize(graph, plan, calibrate(graph, samples).ranges).graph
    content, feeds = to_onnx(made).SerializeToString(), random_feeds(graph, 99)
    for one, other in zip(run(content, feeds), run(content, feeds, [FORGETFUL]), strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_a_float_bias_comes_back_to_the_last_bit(values: list[float]) -> None:
    net = Network()
    x = net.input("x", 1, 2, 3, 3)
    bias = np.array(values, np.float32)
    made = net.op("Conv", x, net.uniform(len(values), 2, 1, 1), net.constant(bias), shape=(1, len(values), 3, 3))
    graph = net.graph(made)
    stored = exact_bias(graph, graph.nodes[0], 2)
    assert stored is not None
    np.testing.assert_array_equal(stored.values.astype(np.float32) * stored.scale, bias)


@given(
    st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=6), st.floats(2.0**-40, 1.0, width=32), st.booleans()
)
def test_a_long_bias_keeps_what_float32_can_hold(values: list[int], step: float, alone: bool) -> None:
    array = np.array(values, np.int64)
    scales = tuple(step * (index + 1) for index in range(len(values))) if alone else (step,)
    scales = tuple(float(np.float32(scale)) for scale in scales)
    kept = narrowed(array, Quantization(scales, (0,) * len(scales), 0 if alone else None))
    real = array * np.array(scales)
    error = np.abs(kept.values * kept.scale.astype(np.float64) - real)
    most = np.abs(real) if alone else np.abs(real).max()
    assert (error <= 2.0**-30 * most).all()
    if np.abs(array).max() < 2**31:
        np.testing.assert_array_equal(kept.values, array)
