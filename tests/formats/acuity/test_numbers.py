"""Networks whose tensors are called by numbers, as PyTorch once called them: layers have numbers in their names."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import numpy as np
import pytest
from onnx import ModelProto

from dovetail.data import Sample
from dovetail.environments import ConversionJob, State, find_environment, run_job, state_of
from dovetail.errors import InexpressiblePlan
from dovetail.exporters import to_onnx
from dovetail.fit import HandedRequest, read_scored
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.acuity import read_network, read_table
from dovetail.formats.acuity.network import AcuityLayer
from dovetail.formats.consumer import ConsumerRequest, find_consumer
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.plan.plan import plan_from_json
from dovetail.quantize import calibrate, quantize
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples
from dovetail.testing.running import random_feeds

FORMAT = find_format("acuity-quantize")
BASE, WIDE = parse_placement("vsi:v853@i8pc"), parse_placement("vsi:v853@i16")
_FIRST = 640
_CLOSE = 0.005
"""Between the score predicted and the one given, of scores up to 1."""


def gated() -> ModelProto:
    """Return a chain of SiLUs with a branch, the number of every tensor its name."""
    net = Network(9)
    tensor = net.input("x", 1, 3, 16, 16)
    for width in (8, 12, 8, 8):
        made = net.conv(tensor, width, 3)
        tensor = net.op("Mul", made, net.op("Sigmoid", made))
    tensor = net.op("Concat", tensor, net.conv(tensor, 4), shape=(1, 12, 16, 16), axis=1)
    model = to_onnx(normalize(net.graph(net.conv(tensor, 6))))
    model.ir_version = 8
    return _numbered(model)


def _numbered(model: ModelProto) -> ModelProto:
    """Give every tensor a number for a name."""
    graph = model.graph
    names = [item.name for item in (*graph.input, *graph.initializer)]
    names += [name for node in graph.node for name in node.output]
    numbers = {name: str(_FIRST + place) for place, name in enumerate(dict.fromkeys(names))}
    for item in (*graph.input, *graph.initializer, *graph.output, *graph.value_info):
        item.name = numbers.get(item.name, item.name)
    for node in graph.node:
        node.input[:] = [numbers.get(name, "") for name in node.input]
        node.output[:] = [numbers[name] for name in node.output]
    return model


def _opened(folder: Path) -> tuple[Path, Graph]:
    source = folder / "model.onnx"
    source.write_bytes(gated().SerializeToString())
    return source, normalize(load_model(source))


def _listing(graph: Graph) -> bytes:
    """Return the network as Acuity lists it: a gate and its product are one layer."""
    ops = {"Conv": "convolution", "Concat": "concat"}
    lids = {name: f"{name}_99" for name in graph.inputs}
    layers = {lids[name]: {"name": name, "op": "input", "inputs": []} for name in graph.inputs}
    for place, node in enumerate(graph.nodes):
        (made,) = node.outputs
        data = [name for name in node.inputs if name not in graph.constants]
        if node.op == "Sigmoid":
            continue
        op, name, lids[made] = ops.get(node.op, "swish"), made, f"{made}_{place}"
        if op == "swish":
            product, gate = data
            lids[made] = f"{gate}_{place + 100}_{made}_{place}"
            data, name = [product], "swish"
        layers[lids[made]] = {"name": name, "op": op, "inputs": [f"@{lids[item]}:out0" for item in data]}
    (end,) = graph.outputs
    layers[f"attach_{end}/out0_0"] = {"name": "attach", "op": "output", "inputs": [f"@{lids[end]}:out0"]}
    return json.dumps({"MetaData": {"Name": "n"}, "Layers": layers}).encode()


@pytest.mark.parametrize(
    ("lid", "likely"),
    [
        ("800_378_801_374", ["801", "800"]),
        ("c2.sg_35_c2.silu_31", ["c2.silu", "c2.sg"]),
        ("a_1_2_3_b_4_5", ["2_3_b_4", "b_4", "a"]),
        ("decoded_1", ["decoded"]),
        ("images", []),
    ],
)
def test_names_of_a_layer_may_be_numbers(lid: str, likely: list[str]) -> None:
    names = AcuityLayer(lid, "", "swish", ()).possible_tensors
    assert [name for name in names if name in likely] == likely


def test_a_layer_of_many_numbers_has_few_names() -> None:
    assert len(AcuityLayer("1_" * 50_000 + "1", "", "concat", ()).possible_tensors) < 50


def test_a_fused_layer_of_numbers_stands_for_gate_and_product(tmp_path: Path) -> None:
    _, graph = _opened(tmp_path)
    listing = _listing(graph)
    network = read_network(listing, "n")
    nodes_of = network.bind(graph).nodes_of
    swishes = [lid for lid, layer in network.layers.items() if layer.op == "swish"]
    ops = {node.name: node.op for node in graph.nodes}
    assert len(swishes) == 4
    assert {tuple(sorted(ops[name] for name in nodes_of[lid])) for lid in swishes} == {("Mul", "Sigmoid")}
    convolutions = [lid for lid, layer in network.layers.items() if layer.op == "convolution"]
    assert {tuple(ops[name] for name in nodes_of[lid]) for lid in convolutions} == {("Conv",)}
    gate = next(node.name for node in graph.nodes if node.op == "Sigmoid")
    plan = Plan(graph.digest, BASE, {gate: Override(WIDE, "a test")})
    with pytest.raises(InexpressiblePlan) as caught:
        FORMAT.write(WriteRequest(plan, graph, listing))
    assert set(caught.value.nodes) == set(nodes_of[swishes[0]])


def test_a_fused_layer_of_numbers_is_stored_as_its_product(tmp_path: Path) -> None:
    _, graph = _opened(tmp_path)
    listing = _listing(graph)
    samples = HeldSamples([Sample("0", random_feeds(graph, 0))])
    plan = Plan(graph.digest, BASE)
    quantized = quantize(graph, plan, calibrate(graph, samples).ranges)
    table = read_table(FORMAT.write(WriteRequest(plan, graph, listing, quantized=quantized)).content, "t")
    for layer in read_network(listing, "n").layers.values():
        if layer.op == "swish":
            kind = quantized.graph.types[layer.lid.split("_")[2]]
            assert kind.quant is not None
            assert table.parameters[f"@{layer.lid}:out0"].scale == kind.quant.scale[0]


@pytest.mark.env
@pytest.mark.slow
def test_acuity_gives_what_is_predicted_of_gates_called_by_numbers(tmp_path: Path) -> None:
    """Random plans through Acuity's hybrid flow: all layers as planned, and the score that the simulation gives."""
    state = state_of(find_environment("acuity"))
    if state.state is not State.READY:
        needs.without("acuity", f"the environment is {state.state.value}: dovetail env install acuity")
    source, graph = _opened(tmp_path)
    job = ConversionJob("acuity_network", {"path": str(source), "label": "test"}, tmp_path, 600.0)
    listing = (tmp_path / str(run_job(state, job, lambda _step, _share: None)["network"])).read_bytes()
    network, consumer = read_network(listing, "n"), find_consumer("acuity-quantize")
    assert consumer is not None
    assert sum(layer.op == "swish" for layer in network.layers.values()) == 4
    nodes_of = network.bind(graph).nodes_of
    assert all(len(nodes_of[lid]) == 2 for lid, layer in network.layers.items() if layer.op == "swish")
    samples = HeldSamples([Sample(str(number), random_feeds(graph, number)) for number in range(4)])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        away = {node.name: Override(WIDE, "a test") for node in graph.nodes if rng.random() < 0.4}
        plan = Plan(graph.digest, BASE, away)
        try:
            written = FORMAT.write(WriteRequest(plan, graph, listing))
        except InexpressiblePlan as error:
            plan = plan_from_json(error.nearest)
            written = FORMAT.write(WriteRequest(plan, graph, listing))
        asked = ConsumerRequest(graph, plan, written, source.read_bytes(), listing=listing)
        reading, score = read_scored(consumer, asked, HandedRequest(graph, samples, metric="noise"))
        assert (reading.notes, reading.disobeyed) == ((), ()), seed
        assert score.predicted.value == pytest.approx(score.given, abs=_CLOSE), seed
