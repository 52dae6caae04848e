"""Affinities in the real OpenVINO: two devices that are the CPU plug-in under two names."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest

from dovetail.errors import FormatError, PlanError
from dovetail.exporters import to_onnx
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.formats.openvino import apply_affinities, count_submodels, predict_submodels, read_affinities
from dovetail.importers import load_model
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement

from ..conftest import make_plan, placements

BASE = parse_placement("vsi:v853@i8pc")
DEVICES = {"vsi:v853": "CPUA", "cpu": "CPUB"}


@pytest.fixture(scope="module")
def core() -> Any:
    core = ov.Core()
    plugin = next(Path(ov.__file__).parent.rglob("*openvino_intel_cpu_plugin.so"))
    for name in DEVICES.values():
        core.register_plugin(str(plugin), name)
    return core


def _chain(text: str) -> Graph:
    """Read `a=p b=a+k` as a graph of Sigmoids and Adds; p, q are inputs, k is a constant; every end is an output."""
    kind = TensorType(DType.F32, (1, 4))
    nodes, types, inputs = [], {}, []
    for item in text.split():
        out, _, right = item.partition("=")
        ins = tuple(right.split("+"))
        for name in ins:
            if name in "pq" and name not in inputs:
                inputs.append(name)
            types[name] = kind
        types[out] = kind
        nodes.append(Node(out, "Sigmoid" if len(ins) == 1 else "Sum", ins, (out,)))
    read = {name for node in nodes for name in node.inputs}
    outputs = tuple(node.outputs[0] for node in nodes if node.outputs[0] not in read)
    constants = {name: np.full((1, 4), 0.5, np.float32) for name in types if name[0] == "k"}
    return Graph("g", tuple(nodes), tuple(inputs), outputs, types, constants)


def _plan(graph: Graph, on_cpu: set[str]) -> Plan:
    away = Override(parse_placement("cpu@fp32"), "a test")
    return Plan(graph.digest, parse_placement("vsi:v853@fp32"), dict.fromkeys(sorted(on_cpu), away))


def _model(core: Any, graph: Graph) -> Any:
    return core.read_model(to_onnx(graph).SerializeToString())


# The letters after the graph are the devices of its nodes; the count is what the notes measured on HETERO 2026.4.
TOPOLOGIES = [
    ("a=p b=a c=b", "ABA", 3),
    ("a=p b=a c=b d=c", "ABAB", 4),
    ("a=p b=a c=b", "AAA", 1),
    ("a=p b=a c=b", "BBB", 1),
    ("a=p b=a c=b d=c+a", "ABAA", 3),
    ("a=p b=a c=b d=c e=d+a", "ABABA", 5),
    ("a=p b=a c=q d=c", "AAAA", 2),
    ("a=p+k b=a+k c=b+k", "ABA", 3),
    ("a=p x=a+k b=a c=b+k", "AABA", 3),
    ("a=p x=a+k b=a c=a+k", "AABA", 2),
    ("a=p+q b=a c=b+q", "ABA", 3),
    ("a=p b=a c=p d=b+c", "AABA", 3),
    ("a=p b=a c=p d=b+c", "ABBA", 4),
    ("a=p b=a+a", "AB", 2),
    ("a=p b=q c=a+b d=b+a", "ABAB", 3),
]


@pytest.mark.parametrize(("text", "devices", "count"), TOPOLOGIES)
def test_hetero_makes_the_predicted_number_of_submodels(core, text: str, devices: str, count: int) -> None:
    graph = _chain(text)
    names = [node.name for node in graph.nodes]
    plan = _plan(graph, {name for name, device in zip(names, devices, strict=True) if device == "B"})
    model = _model(core, graph)
    apply_affinities(model, graph, plan, DEVICES)
    affinities = read_affinities(model)
    assert {name: affinities[name] for name in names if name in affinities} == {
        name: f"CPU{device}" for name, device in zip(names, devices, strict=True) if name in affinities
    }
    predicted = predict_submodels(model, affinities)
    compiled = core.compile_model(model, "HETERO:CPUA,CPUB")
    assert count_submodels(compiled) == predicted
    assert predicted == count
    feeds = {name: np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4) for name in graph.inputs}
    whole = core.compile_model(_model(core, graph), "CPU")
    for one, other in zip(compiled(feeds).values(), whole(feeds).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_random_placements_of_a_real_network(core, digits: Path) -> None:
    graph = normalize(load_model(digits / "digits.onnx"))
    rng = random.Random(1)
    for share in (0.1, 0.3, 0.5):
        plan = _plan(graph, {node.name for node in graph.nodes if rng.random() < share})
        model = _model(core, graph)
        apply_affinities(model, graph, plan, DEVICES)
        compiled = core.compile_model(model, "HETERO:CPUA,CPUB")
        assert count_submodels(compiled) == predict_submodels(model, read_affinities(model))


def test_query_model_is_read_as_a_plan(core, graph: Graph) -> None:
    import json

    found = dict(core.query_model(_model(core, graph), "CPU"))
    base = parse_placement("vsi:v853@fp32")
    plan = find_format("openvino").read(json.dumps(found).encode(), ReadRequest(graph, base))
    assert {str(place) for place in placements(graph, plan).values()} == {"cpu@fp32"}


def test_the_file_goes_there_and_back(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32", join="cpu@fp32")
    written = find_format("openvino").write(WriteRequest(plan, graph))
    assert '"device": "HETERO:NPU,CPU"' in written.text
    assert '"scores": "CPU"' in written.text
    back = find_format("openvino").read(written.content, ReadRequest(graph, plan.default))
    assert placements(graph, back) == placements(graph, plan)


def test_a_node_without_a_device_is_an_error_as_in_openvino(graph: Graph) -> None:
    with pytest.raises(FormatError, match="UNASSIGNED"):
        find_format("openvino").read(b'{"affinities": {"scores": "CPU"}}', ReadRequest(graph, BASE))


def test_a_target_without_a_device_is_an_error(core, graph: Graph) -> None:
    with pytest.raises(PlanError, match="vsi:v853"):
        apply_affinities(_model(core, graph), graph, make_plan(graph, "vsi:v853@fp32"), {"cpu": "CPU"})


def test_a_cut_through_a_state_is_an_error_that_names_it() -> None:
    from openvino import opset13 as ops

    from dovetail.formats.openvino.model import _check_state

    x = ops.parameter([1, 4], np.float32, name="x")
    read = ops.read_value(ops.constant(np.zeros((1, 4), np.float32)), "memory", np.float32, [1, 4], name="read")
    total = ops.add(x, read, name="total")
    write = ops.assign(total, "memory", name="write")
    model = ov.Model([ops.result(total, name="y")], [write], [x], "stateful")
    nodes = list(model.get_ordered_ops())
    together = {op.get_friendly_name(): "NPU" for op in nodes}
    _check_state(nodes, together)
    with pytest.raises(PlanError, match=r"state 'memory': .* is on .* on .*: a state cannot be cut") as caught:
        _check_state(nodes, {**together, "read": "CPU"})
    assert "\n" not in str(caught.value)
