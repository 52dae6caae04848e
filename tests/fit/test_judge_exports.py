"""What Dovetail itself exports as Q/DQ is honoured to the last bit, over random networks and plans."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dovetail
from dovetail.backend.registry import find_target
from dovetail.compare.honour import HonourRequest, honour_graph
from dovetail.compare.judgement import NodeOutcome
from dovetail.exporters import to_onnx
from dovetail.importers.onnx import load_onnx
from dovetail.ir import AnyArray, Graph
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Placement, Plan, find_units
from dovetail.plan.quantized import QuantizedGraph
from dovetail.plan.resolve import unit_refusal
from dovetail.quantize.adapt import adapt
from dovetail.testing.networks import networks

TARGETS = ("vsi:a311d", "vsi:imx8mp", "vsi:v853")
PRECISIONS = (Precision.U8, Precision.I8, Precision.I8PC, Precision.I16)


def _run(quantized: QuantizedGraph, feeds: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
    with dovetail.open_session(dovetail.compile_model(dovetail.partition(quantized))) as session:
        return session.run(feeds).outputs


def _plan(graph: Graph, target: str, draw: st.DataObject) -> Plan:
    """Return a plan of two precisions that the target takes everywhere: float between Q/DQ pairs reads as quantised."""
    low, high = (Placement(target, draw.draw(st.sampled_from(PRECISIONS))) for _ in range(2))
    targets = {target: find_target(target)}
    units = find_units(graph).items
    assume(all(unit_refusal(graph, unit, place, targets) is None for unit in units for place in (low, high)))
    raised = draw.draw(st.lists(st.sampled_from(units), max_size=3, unique=True))
    return Plan(graph.digest, low, {node: Override(high, "drawn") for unit in raised for node in unit.nodes})


@settings(max_examples=30)
@given(networks(most=6), st.sampled_from(TARGETS), st.data())
def test_an_export_gives_its_plans_outputs(drawn: Graph, target: str, data: st.DataObject) -> None:
    graph = dovetail.normalize(drawn)
    assume(graph.nodes and not set(graph.outputs) & set(graph.inputs))
    rng = np.random.default_rng(5)
    samples = [{"x": rng.normal(size=graph.types["x"].static_shape or ()).astype(np.float32)} for _ in range(4)]
    ranges = dovetail.calibrate(graph, dovetail.open_samples(samples, dovetail.specs_of(graph))).ranges
    ours = dovetail.quantize(graph, _plan(graph, target, data), ranges)
    read = dovetail.normalize(load_onnx(to_onnx(ours.graph).SerializeToString()))
    nodes = honour_graph(read, HonourRequest(find_target(target), find_target("cpu"), float_on_host=True))
    assert {item.outcome for item in nodes} == {NodeOutcome.HONOURED}, [item.reason for item in nodes]
    theirs = adapt(read, {item.node: item.placed for item in nodes if item.placed is not None})
    for feeds in samples:
        wanted, found = _run(ours, feeds), _run(theirs, feeds)
        for name in graph.outputs:
            np.testing.assert_array_equal(found[name], wanted[name])
