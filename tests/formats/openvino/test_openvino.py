"""Affinities in the real OpenVINO: two devices that are the CPU plug-in under two names."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino as ov
import pytest
from onnx import TensorProto, helper

from dovetail.errors import FormatError, InexpressiblePlan, PlanError
from dovetail.exporters import to_onnx
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.formats.openvino import (
    apply_affinities,
    count_submodels,
    device_names,
    fold_constants,
    predict_parts,
    predict_submodels,
    read_affinities,
    restore_affinities,
    weights_without_shape,
    write_ir,
)
from dovetail.importers import load_model
from dovetail.ir import DType, Graph, Node, TensorType
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.plan.plan import plan_from_json

from ..conftest import make_plan, placements

BASE = parse_placement("vsi:v853@i8pc")
JUDGED = ("2026.3.", "2026.4.")
DEVICES = {"vsi:v853": "CPUA", "cpu": "CPUB"}


@pytest.fixture(scope="module")
def core() -> Any:
    core = ov.Core()
    plugin = next(Path(ov.__file__).parent.rglob("*openvino_intel_cpu_plugin.so"))
    for name in DEVICES.values():
        core.register_plugin(str(plugin), name)
    for name in ("CPU", *DEVICES.values()):
        # Some processors would compute in bfloat16.
        core.set_property(name, {"INFERENCE_PRECISION_HINT": "f32"})
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
    # Constants join what reads them.
    ("a=p b=k+p c=q+k", "ABB", 2),
    ("a=p b=k+a c=k+q d=a e=k+c", "BBBBB", 1),
    ("a=p b=p c=p d=a+k e=k+b", "BABBB", 3),
    # Drawn ones, in which parts wait for each other.
    ("a=p b=q+a c=b d=q+k e=a+q f=c g=a+f", "BABBBAB", 7),
    ("a=p b=p c=q+a d=q+p e=k+q", "ABBAB", 4),
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


@pytest.mark.parametrize(
    ("text", "devices", "known"),
    [
        ("a=p b=a c=b d=c", "ABAB", True),
        ("a=p b=a c=b d=c+a", "ABAA", False),
        ("a=p b=q+a c=b d=q+k e=a+q f=c g=a+f", "BABBBAB", False),
    ],
)
def test_where_data_comes_back_a_version_that_was_not_judged_is_not_sure(
    core, text: str, devices: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _chain(text)
    on_cpu = {node.name for node, device in zip(graph.nodes, devices, strict=True) if device == "B"}
    model = _model(core, graph)
    apply_affinities(model, graph, _plan(graph, on_cpu), DEVICES)
    assert predict_parts(model, read_affinities(model)).sure is (known or ov.__version__.startswith(JUDGED))
    monkeypatch.setattr(ov, "__version__", "2031.1.0")
    assert predict_parts(model, read_affinities(model)).sure is known


def _drawn_text(rng: random.Random) -> str:
    """Return a drawn network in the words of `_chain`: any tensors are joined, inputs and constants are shared."""
    made, shared = list("pq"[: rng.randint(1, 2)]), ["k", "k2"]
    lines = []
    for number in range(rng.randint(6, 30)):
        first, kind = rng.choice(made[-rng.choice((2, 4, 40)) :]), rng.random()
        second = [rng.choice(shared if kind < 0.35 else made)] if kind < 0.75 else []
        lines.append(f"n{number}={'+'.join([first, *second])}")
        made.append(f"n{number}")
    return " ".join(lines)


def test_hetero_draws_every_operator_in_the_predicted_part(core, tmp_path: Path, monkeypatch) -> None:
    """HETERO cuts and draws a model before it looks for the devices, of which there are none here."""
    if not ov.__version__.startswith(JUDGED):
        pytest.skip("the rule is that of other versions of OpenVINO")
    seed = random.randrange(1 << 30)
    rng, back = random.Random(seed), 0
    monkeypatch.setenv("OPENVINO_HETERO_VISUALIZE", "YES")
    monkeypatch.chdir(tmp_path)
    for _ in range(60):
        graph = _chain(text := _drawn_text(rng))
        on_cpu = {node.name for node in graph.nodes if rng.random() < rng.choice((0.1, 0.5))}
        model = _model(core, graph)
        apply_affinities(model, graph, _plan(graph, on_cpu), {"vsi:v853": "NONEA", "cpu": "NONEB"})
        predicted = predict_parts(model, read_affinities(model))
        with pytest.raises(RuntimeError, match="NONE"):
            core.compile_model(model, "HETERO:CPUA,CPUB")
        (drawing,) = tmp_path.glob("hetero_subgraphs_*.dot")
        drawn = dict(re.findall(r'label="(.*?)\\n[^"]*subgraph=(-?\d+)', drawing.read_text()))
        pairs = {
            (part, drawn[op.get_friendly_name()])
            for op, part in zip(model.get_ordered_ops(), predicted.parts, strict=True)
            if op.get_type_name() not in {"Constant", "Parameter"}
        }
        sides = [{pair[side] for pair in pairs} for side in (0, 1)]
        assert len(pairs) == len(sides[0]) == len(sides[1]), (seed, text, sorted(on_cpu))
        back += len(predicted.cuts) > 0
    assert back > 20


def test_a_cut_into_what_computes_weights_is_foreseen_and_folded_away(core) -> None:
    from openvino import opset13 as ops

    x = ops.parameter([1, 4, 8, 8], np.float32, name="x")
    flat = ops.constant(np.ones(4 * 9, np.float32), name="flat")
    shape = ops.concat([ops.constant(np.array([4, 1, 1])), ops.constant(np.array([3, 3]))], 0, name="shape")
    weights = ops.reshape(flat, shape, False, name="weights")
    conv = ops.group_convolution(x, weights, [1, 1], [0, 0], [0, 0], [1, 1], name="conv")
    model = ov.Model([ops.result(conv, name="y")], [x], "weights")

    def cut() -> tuple[str, ...]:
        for op in model.get_ordered_ops():
            op.get_rt_info()["affinity"] = "CPUB" if op.get_friendly_name() == "shape" else "CPUA"
        return weights_without_shape(model, predict_parts(model, read_affinities(model)))

    assert cut() == ("conv",)
    with pytest.raises(RuntimeError, match="dynamic weights"):
        core.compile_model(model, "HETERO:CPUA,CPUB")
    fold_constants(model)
    assert cut() == ()
    assert count_submodels(core.compile_model(model, "HETERO:CPUA,CPUB")) == 1


def test_an_ir_keeps_affinities_and_hetero_obeys_them(core, digits: Path, tmp_path: Path) -> None:
    graph = normalize(load_model(digits / "digits.onnx"))
    rng = random.Random(3)
    plan = _plan(graph, {node.name for node in graph.nodes if rng.random() < 0.3})
    made = write_ir(graph, plan, DEVICES)
    assert set(made.devices.values()) == set(DEVICES.values())
    (tmp_path / "net.xml").write_bytes(made.xml)
    (tmp_path / "net.bin").write_bytes(made.weights)
    model = core.read_model(tmp_path / "net.xml")
    assert read_affinities(model) == {}
    assert restore_affinities(model) == made.devices
    compiled = core.compile_model(model, f"HETERO:{','.join(made.order)}")
    assert count_submodels(compiled) == made.prediction.count > 1
    feed = np.random.default_rng(0).uniform(0, 1, (1, 1, 40, 40)).astype(np.float32)
    whole = core.compile_model(_model(core, graph), "CPU")
    for one, other in zip(compiled(feed).values(), whole(feed).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_devices_of_targets_are_their_own_or_named(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@fp32", sig="cpu@fp32", join="openvino:GPU@fp32")
    assert device_names(plan, {}) == {"vsi:v853": "NPU", "cpu": "CPU", "openvino:GPU": "GPU"}
    assert device_names(plan, {"vsi:v853": "GPU.1"})["vsi:v853"] == "GPU.1"


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


def test_what_one_node_of_the_file_became_has_one_device(tmp_path: Path) -> None:
    """Softmax of ONNX before version 13 flattens: OpenVINO has one name for all of it."""
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 2, 3, 4)) for name in "xy"]
    node = helper.make_node("Softmax", ["x"], ["y"], "soft", axis=1)
    onnx.save(
        helper.make_model(
            helper.make_graph([node], "old", kinds[:1], kinds[1:]),
            opset_imports=[helper.make_opsetid("", 11)],
            ir_version=6,
        ),
        tmp_path / "old.onnx",
    )
    graph = normalize(load_model(tmp_path / "old.onnx"))
    assert len(graph.nodes) > 1
    some = next(item.name for item in graph.nodes if item.op == "Softmax")
    with pytest.raises(InexpressiblePlan, match="different placements") as caught:
        find_format("openvino").write(WriteRequest(_plan(graph, {some}), graph))
    nearest = plan_from_json(caught.value.nearest)
    assert set(nearest.overrides) == {item.name for item in graph.nodes}
    assert find_format("openvino").write(WriteRequest(nearest, graph)).content


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
