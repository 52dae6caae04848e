"""What NNCF makes of ignored scopes is told node by node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import FormatError
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, Obeyed, find_consumer, noise_inputs
from dovetail.ir import Graph
from dovetail.plan import Plan

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
