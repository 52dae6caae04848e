"""Nodes that a device refuses by query_model go on to the next one."""

from __future__ import annotations

import openvino
import pytest

from dovetail.backend.registry import find_target
from dovetail.errors import PlanError
from dovetail.exporters import to_onnx
from dovetail.formats.openvino import query
from dovetail.formats.openvino.consumer import hint_for
from dovetail.formats.openvino.query import refused_here, refused_nodes, with_live_refusals
from dovetail.ir import Graph
from dovetail.plan import Recipe, make_plan, parse_placement
from dovetail.testing.networks import Network

CPU, HOST = parse_placement("openvino:CPU@fp32"), parse_placement("cpu@fp32")


def _graph() -> Graph:
    net = Network()
    return net.graph(net.op("Sigmoid", net.conv(net.op("Relu", net.conv(net.input("x", 1, 3, 8, 8), 4, 3)), 4)))


def test_what_the_plug_in_takes_stays() -> None:
    graph = _graph()
    assert refused_here(graph, "openvino:CPU") == frozenset()
    recipe = with_live_refusals(Recipe(CPU, (HOST,)), graph)
    plan = make_plan(graph, recipe, {place.target: find_target(place.target) for place in (CPU, HOST)})
    assert {plan.placement(node.name) for node in graph.nodes} == {CPU}


def test_one_operator_of_a_node_that_is_not_taken_is_enough() -> None:
    """OpenVINO adds the bias of a convolution by an operator of its own."""
    graph = _graph()
    model = openvino.Core().read_model(to_onnx(graph).SerializeToString())
    taken = dict(openvino.Core().query_model(model, "CPU"))
    convolution = next(op for op in model.get_ordered_ops() if op.get_type_name() == "Convolution")
    del taken[convolution.get_friendly_name()]
    assert refused_nodes(graph, model, taken) == {"n0"}


def test_what_is_refused_goes_to_the_next_device_and_the_plan_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _graph()
    # No plug-in that is in the package refuses anything.
    monkeypatch.setattr(query, "refused_here", lambda graph, target: frozenset({"n2", "n3"}))
    recipe = with_live_refusals(Recipe(CPU, (HOST,)), graph)
    plan = make_plan(graph, recipe, {place.target: find_target(place.target) for place in (CPU, HOST)})
    assert {node.name for node in graph.nodes if plan.placement(node.name) == HOST} == {"n2", "n3"}
    assert "query_model" in plan.reason("n3")
    with pytest.raises(PlanError, match="every device refuses 'n2'"):
        with_live_refusals(Recipe(CPU), graph)


def test_a_recipe_without_such_a_device_is_refused() -> None:
    with pytest.raises(PlanError, match="no device of OpenVINO"):
        with_live_refusals(Recipe(HOST), _graph())


@pytest.mark.parametrize("entry", ['<attribute name="affinity" version="0" value="CPU"/>', '<affinity value="CPU"/>'])
def test_an_ir_holds_no_affinities(entry: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Why they are a file of their own: OpenVINO neither writes them nor reads them."""
    folder = tmp_path_factory.mktemp("ir")
    model = openvino.Core().read_model(to_onnx(_graph()).SerializeToString())
    for op in model.get_ordered_ops():
        op.get_rt_info()["affinity"] = "CPU"
    openvino.serialize(model, folder / "m.xml", folder / "m.bin")
    text = (folder / "m.xml").read_text()
    assert "affinity" not in text
    changed = text.replace('type="ReLU" version="opset1">', f'type="ReLU" version="opset1"><rt_info>{entry}</rt_info>')
    assert changed != text
    (folder / "m.xml").write_text(changed)
    again = openvino.Core().read_model(folder / "m.xml")
    assert not any("affinity" in op.get_rt_info() for op in again.get_ordered_ops())


@pytest.mark.parametrize(
    ("message", "helps"),
    [
        ("Cannot fallback on ngraph reference implementation. Ngraph::Node::evaluate() is not implemented", True),
        ("to_shape was called on a dynamic shape.", True),
        ("Static rank required: rank is dynamic", True),
        ("Device with name 'NPU' is not registered", False),
    ],
)
def test_shapes_that_no_device_knows_get_a_hint(message: str, helps: bool) -> None:
    """As OpenVINO 2026.4 put it for UltraFace and for a face detector by read_model."""
    assert (hint_for(message) is not None) is helps
