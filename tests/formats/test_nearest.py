"""A plan that a format cannot say: in every format the error names nodes and offers a plan that can be said."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import InexpressiblePlan
from dovetail.formats import Format, WriteRequest, Written, find_format, format_names
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.plan.plan import plan_from_json
from dovetail.quantize import Range, Ranges, quantize
from dovetail.testing.networks import Network

ROOT = Path(__file__).parents[2]
FILES, HOW_TO = ROOT / "examples" / "digits", ROOT / "docs" / "how-to"
LISTINGS = {
    "acuity-quantize": HOW_TO / "acuity" / "digits.json",
    "paddle-subgraph": HOW_TO / "fastdeploy" / "log.txt",
    "paddle-mixed": HOW_TO / "fastdeploy" / "log.txt",
    "onnxruntime-layers": FILES / "digits.onnx",
}
PREVIOUS = {"rknn": Path(__file__).parent / "golden" / "rknn_digits.quantization.cfg"}
PLACES = {
    "head/concat": "vsi:v853@i16",
    "head/reshape": "vsi:v853@bf16",
    "head/transpose": "cpu@fp32",
    "head/wh_exp": "vsi:v853@fp16",
    "stem/conv": "cpu@i8pc",
}


@cache
def _network() -> Graph:
    return normalize(load_model(FILES / "digits.onnx"))


def _write(form: Format, plan: Plan) -> Written:
    graph = _network()
    quantized = None
    if form.name in ("onnx-grid", "onnx-qdq"):
        ranges = Ranges(graph.digest, "test", 1, {name: Range(-4.0, 4.0) for name in graph.types})
        quantized = quantize(graph, plan, ranges)
    listing, previous = (
        None if path is None else path.read_bytes() for path in (LISTINGS.get(form.name), PREVIOUS.get(form.name))
    )
    return form.write(WriteRequest(plan, graph, listing, previous, quantized))


@pytest.mark.parametrize("name", format_names())
def test_the_error_names_nodes_and_offers_a_plan_that_can_be_said(name: str) -> None:
    graph, form = _network(), find_format(name)
    away = {node: Override(parse_placement(place), "a test") for node, place in PLACES.items()}
    plan = Plan(graph.digest, parse_placement("vsi:v853@i8pc"), away)
    with pytest.raises(InexpressiblePlan, match="nearest plan") as caught:
        _write(form, plan)
    assert caught.value.nodes
    assert set(caught.value.nodes) <= {node.name for node in graph.nodes}
    assert all(f"'{node}'" in str(caught.value) for node in caught.value.nodes[:5])
    nearest = plan_from_json(caught.value.nearest)
    assert _write(form, nearest).content
    # What could be said as planned is left alone: most nodes do not move.
    moved = [node.name for node in graph.nodes if nearest.placement(node.name) != plan.placement(node.name)]
    assert 0 < len(moved) < len(graph.nodes) / 2


@pytest.mark.parametrize("name", ["nncf", "tflite"])
def test_what_a_list_of_exclusions_has_no_word_for_is_in_float_on_the_cpu(name: str) -> None:
    graph, form = _network(), find_format(name)
    wide = Override(parse_placement("vsi:v853@i16"), "a test")
    with pytest.raises(InexpressiblePlan) as caught:
        _write(form, Plan(graph.digest, parse_placement("vsi:v853@i8pc"), {"head/reshape": wide}))
    nearest = plan_from_json(caught.value.nearest)
    assert {str(item.placement) for item in nearest.overrides.values()} == {"cpu@fp32"}


def test_the_nearest_plan_says_nothing_that_a_toolchain_may_not_obey() -> None:
    """Before a Sigmoid NNCF never rounds; whether it does before a Mul by a constant depends on what is around it."""
    net = Network()
    tensor = net.conv(net.input("x", 1, 2, 4, 4), 2)
    scaled = net.op("Mul", net.op("Abs", tensor), net.constant(np.full((1, 2, 1, 1), 0.5, np.float32)))
    graph = net.graph(net.op("Sigmoid", tensor), net.conv(scaled, 2))
    graph = graph.evolve(nodes=tuple(replace(node, origin=(node.name,)) for node in graph.nodes))
    with pytest.raises(InexpressiblePlan) as caught:
        _written_as("nncf", graph)
    nearest = plan_from_json(caught.value.nearest)
    assert {graph.node(name).op for name in nearest.overrides} == {"Abs", "Sigmoid", "Mul"}
    assert find_format("nncf").write(WriteRequest(nearest, graph)).content


def _written_as(name: str, graph: Graph) -> Written:
    return find_format(name).write(WriteRequest(Plan(graph.digest, parse_placement("vsi:v853@i8pc")), graph))
