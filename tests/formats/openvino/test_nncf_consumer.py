"""What NNCF makes of ignored scopes is told node by node."""

from __future__ import annotations

from dataclasses import replace

import nncf
import numpy as np
import openvino
import pytest

from dovetail.errors import FormatError
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, Obeyed, find_consumer, noise_inputs
from dovetail.ir import Graph
from dovetail.plan import Plan
from dovetail.testing.networks import Network

from ..conftest import make_plan


def _read(graph: Graph, plan: Plan, written: Plan) -> ConsumerReading:
    consumer = find_consumer("nncf")
    assert consumer is not None
    made = find_format("nncf").write(WriteRequest(written, graph))
    return consumer.read(ConsumerRequest(graph, plan, made, run=noise_inputs(graph, 1)))


@pytest.mark.slow
def test_a_scope_is_read_back(graph: Graph) -> None:
    graph = graph.evolve(nodes=tuple(replace(node, origin=(node.name,)) for node in graph.nodes))
    places = dict.fromkeys(("head_conv", "sig", "scale"), "cpu@fp32")
    low, high = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32"), make_plan(graph, "vsi:v853@i8pc", **places)
    given = {item.node: item.given for item in _read(graph, high, high).nodes}
    assert given["stem"] == given["act"] == "8 bits"
    assert given["head/conv"] == given["sig"] == "float"
    reading = _read(graph, low, high)
    assert {item.node for item in reading.disobeyed if item.obeyed is Obeyed.DROPPED} >= {"head/conv", "scale"}
    reading = _read(graph, high, low)
    assert "head/conv" in {item.node for item in reading.disobeyed if item.obeyed is Obeyed.CHANGED}
    assert all(np.isfinite(value).all() for value in reading.outputs[0].values())


@pytest.mark.slow
def test_a_scope_with_strange_names_is_an_error(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32")
    consumer = find_consumer("nncf")
    assert consumer is not None
    made = replace(find_format("nncf").write(WriteRequest(plan, graph)), content=b'{"names": ["nothing"]}')
    with pytest.raises(FormatError, match="NNCF refuses it"):
        consumer.read(ConsumerRequest(graph, plan, made))


@pytest.mark.slow
def test_weights_behind_what_stays_in_float_have_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default NNCF gives 7 to those of the first rounded convolutions, of which such plans have many."""
    net = Network(1)
    graph = net.graph(net.conv(net.op("Relu", net.conv(net.input("x", 1, 3, 16, 16), 6, 3)), 5, 3))
    graph = graph.evolve(nodes=tuple(replace(node, origin=(node.name,)) for node in graph.nodes))
    first = next(node.name for node in graph.nodes if node.op == "Conv")
    plan, original, made = make_plan(graph, "vsi:v853@i8pc", **{first: "cpu@fp32"}), nncf.quantize, []

    def quantize(*args: object, **options: object) -> openvino.Model:
        made.append(original(*args, **options))
        return made[-1].clone()

    monkeypatch.setattr(nncf, "quantize", quantize)
    _read(graph, plan, plan)
    stored = [item for item in made[-1].get_ordered_ops() if item.get_element_type() == openvino.Type.i8]
    weights = [np.abs(item.data.astype(int)).max() for item in stored if item.get_type_name() == "Constant"]
    assert weights == [127]
