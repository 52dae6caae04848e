"""What the judge of NNCF says of every node is what the numbers say that the nodes read."""

from __future__ import annotations

import draws
import nncf
import openvino
import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st

from dovetail.errors import PlanError, SearchError
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.consumer import ConsumerRequest, Obeyed, noise_inputs
from dovetail.formats.openvino import nncf_consumer
from dovetail.ir import Graph
from dovetail.plan import Override, Plan
from dovetail.testing.networks import Network

from ..test_demands import drawn, sourced, space_for
from .by_values import Judge, verdicts
from .networks import network

SEED = draws.seed_of(__name__)
"""Other networks in every run; a failure prints it."""


def _found(graph: Graph, plan: Plan, written: Plan) -> tuple[dict[str, bool], dict[str, bool | None]]:
    """Return what the judge says of every node and what values say, for a file with another plan in it."""
    kept: list[openvino.Model] = []

    def quantize(model: openvino.Model, *args: object, **options: object) -> openvino.Model:
        kept.append(model.clone())
        kept.append(original(model, *args, **options))
        return kept[-1]

    original = nncf.quantize
    feeds = noise_inputs(graph, 2)
    made = find_format("nncf").write(WriteRequest(written, graph))
    with pytest.MonkeyPatch.context() as patch:
        # The quantiser runs as it is; its argument and its answer are looked at.
        patch.setattr(nncf, "quantize", quantize)
        reading = nncf_consumer.NNCF.read(ConsumerRequest(graph, plan, made, samples=feeds))
    judge = Judge(kept[0], kept[-1], feeds[0])
    told = {item.node: item.obeyed is Obeyed.HONOURED for item in reading.nodes}
    return told, dict(verdicts(graph, plan, judge))


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False], ids=["its own file", "another file"])
@seed(SEED)
@settings(max_examples=12, deadline=None, database=None)
@given(number=st.integers(0, 2**31), draw=st.integers(0, 2**16))
def test_the_judge_says_what_values_say(same: bool, number: int, draw: int) -> None:
    note(f"seed {SEED}")
    graph = network(number)
    try:
        space = space_for("nncf", graph)
    except (PlanError, SearchError):
        # Nothing in it is ever rounded.
        return
    plan = drawn(space, draw)
    told, values = _found(graph, plan, plan if same else drawn(space, draw + 1))
    known = {name: value for name, value in values.items() if value is not None and name in told}
    assert {name: told[name] for name in known} == known
    if same:
        assert False not in told.values()


@pytest.mark.slow
def test_a_float_convolution_with_a_bias_is_left_alone() -> None:
    """OpenVINO finds the shape of a bias from the convolution, so that two operators read what it makes."""
    net = Network(3)
    graph = sourced(net.graph(net.conv(net.op("Relu", net.conv(net.input("x", 1, 4, 24, 24), 6, 3)), 5, 3)))
    space = space_for("nncf", graph)
    low, names = space.plan({}), [node.name for node in graph.nodes if node.op == "Conv"]
    raised = space.plan({unit: Override(ladder[0], "a test") for unit, ladder in space.ladders.items()})
    told, values = _found(graph, raised, raised)
    assert [(told[name], values[name]) for name in names] == [(True, True)] * 2
    told, values = _found(graph, raised, low)
    assert [(told[name], values[name]) for name in names] == [(False, False)] * 2
