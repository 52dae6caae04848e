"""Viewers open quantised files, TFLite and Q/DQ ONNX: Model Explorer reads them, Netron draws them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import needs
import onnx
import pytest
from browser import open_browser

from dovetail.formats import WriteRequest, find_format
from dovetail.formats.consumer import noise_inputs
from dovetail.formats.litert.quantizer import quantised_model
from dovetail.ir import Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import Range, Ranges, quantize

from .test_quantizer import lite_network, opened

LOW, FLOAT = parse_placement("vsi:v853@i8pc"), parse_placement("cpu@fp32")


@pytest.fixture(scope="module")
def network() -> tuple[bytes, Graph, Plan]:
    """Return a TFLite file, its graph, and a plan with one node in float."""
    content = lite_network(5)
    graph = opened(content)
    last = graph.nodes[-1].name
    return content, graph, Plan(graph.digest, LOW, {last: Override(FLOAT, "a test")})


@pytest.fixture(scope="module")
def tflite_file(network: tuple[bytes, Graph, Plan], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what AI Edge Quantizer makes of the plan."""
    content, graph, plan = network
    recipe = find_format("ai-edge-quantizer").write(WriteRequest(plan, graph, content)).content
    path = tmp_path_factory.mktemp("viewed") / "quantised.tflite"
    path.write_bytes(quantised_model(content, graph, recipe, noise_inputs(graph)))
    return path


@pytest.fixture(scope="module")
def onnx_file(network: tuple[bytes, Graph, Plan], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the plan as a Q/DQ file."""
    _, graph, plan = network
    ranges = Ranges(graph.digest, "test", 1, {name: Range(-4.0, 4.0) for name in graph.types})
    asked = WriteRequest(plan, graph, quantized=quantize(graph, plan, ranges))
    path = tmp_path_factory.mktemp("viewed") / "placed.onnx"
    path.write_bytes(find_format("onnx-qdq").write(asked).content)
    return path


def operators(path: Path) -> Counter[str]:
    """Return how often a file has every operator, as LiteRT or ONNX read it."""
    if path.suffix == ".onnx":
        return Counter(node.op_type for node in onnx.load(path).graph.node)
    from dovetail.formats.litert.stored import open_file

    return Counter(str(item["op_name"]) for item in open_file(path.read_bytes())._get_ops_details())


def test_model_explorer_reads_every_operator_of_a_quantised_file(tflite_file: Path) -> None:
    adapter = needs.package("model_explorer.builtin_tflite_flatbuffer_adapter").BuiltinTfliteFlatbufferAdapter()
    (collection,) = adapter.convert(str(tflite_file), {})["graphCollections"]
    drawn = Counter(str(node["label"]).upper() for node in collection.graphs[0]["nodes"])
    assert {name: count for name, count in drawn.items() if name in operators(tflite_file)} == operators(tflite_file)
    assert set(drawn) - set(operators(tflite_file)) == {"GRAPHINPUTS", "GRAPHOUTPUTS", "PSEUDO_CONST"}


def test_model_explorer_reads_every_operator_of_a_q_dq_file(onnx_file: Path) -> None:
    """The package model-explorer-onnx teaches it ONNX."""
    adapter = needs.package("model_explorer_onnx.main").ONNXAdapter()
    (graph,) = adapter.convert(str(onnx_file), {})["graphs"]
    drawn = Counter(str(node.label) for node in graph.nodes)
    asked = operators(onnx_file)
    assert {"QuantizeLinear", "DequantizeLinear"} <= set(asked)
    assert {name: drawn[name] for name in asked} == dict(asked)
    ends = {edge.sourceNodeId for node in graph.nodes for edge in node.incomingEdges}
    assert ends <= {node.id for node in graph.nodes}


def _plain(name: str) -> str:
    """Return an operator's name without the case and the lines of one format."""
    return name.replace("_", "").upper()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tflite_file", "onnx_file"])
def test_netron_draws_every_operator(kind: str, request: pytest.FixtureRequest) -> None:
    netron: Any = needs.package("netron")
    path: Path = request.getfixturevalue(kind)
    address = netron.start(str(path), ("127.0.0.1", 0), browse=False)
    try:
        with open_browser() as browser:
            page = browser.new_page()
            # It asks the network for its newest version.
            page.route(re.compile(r"^(?!http://127\.0\.0\.1)"), lambda route: route.abort())
            page.goto(f"http://{address[0]}:{address[1]}")
            page.get_by_role("button", name="Accept").click(timeout=120_000)
            titles = page.locator(".node-item-type text")
            titles.first.wait_for(timeout=120_000)
            drawn = Counter(_plain(titles.nth(place).text_content()) for place in range(titles.count()))
    finally:
        netron.stop(address)
    asked = operators(path)
    assert drawn == Counter({_plain(name): count for name, count in asked.items()})
