"""What Model Explorer is given, read by its own package."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import needs
import pytest
from browser import open_browser

from dovetail.cli.main import main
from dovetail.importers import load_model
from dovetail.passes import normalize
from dovetail.plan import load_plan
from dovetail.report.view import load_view


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folder of the demo's search, and what it was exported to."""
    folder = tmp_path_factory.mktemp("explorer")
    assert main(["demo", "-o", str(folder / "out")]) == 0
    digits = json.loads((folder / "out" / "request.json").read_text())["model"]
    command = ["export", str(folder / "out" / "plan.json"), "--model", digits, "--format", "model-explorer"]
    assert main([*command, "-o", str(folder / "digits.json")]) == 0
    return folder / "out", folder / "digits.json"


@pytest.mark.slow
def test_the_package_reads_graph_and_node_data(exported: tuple[Path, Path]) -> None:
    builder = needs.package("model_explorer.graph_builder")
    data = needs.package("model_explorer.node_data_builder")
    dacite: Any = needs.package("dacite")
    out, file = exported
    model = json.loads((out / "request.json").read_text())["model"]
    graph, plan = normalize(load_model(model)), load_plan(out / "plan.json")
    collection = json.loads(file.read_text())
    assert collection.pop("kind") == "dovetail-explorer"
    found = dacite.from_dict(builder.GraphCollection, collection, dacite.Config(strict=True))
    (drawn,) = found.graphs
    nodes = {node.id: node for node in drawn.nodes}
    assert len(nodes) == len(drawn.nodes) == len(graph.nodes) + len(graph.inputs) + len(graph.outputs)
    for node in graph.nodes:
        assert nodes[node.name].label == node.op
        attrs = {item.key: item.value for item in nodes[node.name].attrs}
        assert attrs["place"] == str(plan.placement(node.name))
        sources = {edge.sourceNodeId for edge in nodes[node.name].incomingEdges}
        assert sources == {
            graph.producers[name].name if name in graph.producers else f"input:{name}"
            for name in node.inputs
            if name in graph.producers or name in graph.inputs
        }
    units = {unit.nodes[0]: unit for unit in load_view(out).network.units}
    for name in ("device", "precision", "bits", "noise", "ms"):
        table = json.loads(file.with_name(f"digits.{name}.json").read_text())
        results = dacite.from_dict(data.GraphNodeData, table[drawn.id], dacite.Config(strict=True)).results
        assert results.keys() <= nodes.keys()
        if name == "bits":
            assert {node: item.value for node, item in results.items()} == {
                node.name: plan.placement(node.name).precision.bits for node in graph.nodes
            }
        if name == "ms":
            assert sum(item.value for item in results.values()) == pytest.approx(
                sum(unit.latency_ns or 0 for unit in units.values()) / 1e6, rel=1e-4
            )


@pytest.mark.slow
def test_the_package_takes_the_files_into_its_configuration(exported: tuple[Path, Path]) -> None:
    config = needs.package("model_explorer.config").ModelExplorerConfig()
    _, file = exported
    config.add_model_from_path(str(file)).add_node_data_from_path(str(file.with_name("digits.ms.json")))
    assert config.model_sources == [{"url": str(file)}]
    assert config.node_data_sources == [str(file.with_name("digits.ms.json"))]


@pytest.mark.slow
def test_its_page_draws_every_node(exported: tuple[Path, Path]) -> None:
    needs.package("model_explorer")
    _, file = exported
    command = [sys.executable, "-c", "from model_explorer.cmdline import main; main()", str(file)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no_open_in_browser", "--host", "127.0.0.1", "--port", str(port), "--skip_health_check"]
    graph = json.loads(file.read_text())["graphs"][0]
    query = json.dumps(
        {
            "models": [{"url": str(file)}],
            "nodeData": [str(file.with_name("digits.ms.json"))],
            "nodeDataTargets": [file.name],
        }
    )
    server = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with open_browser() as browser:
            page = browser.new_page()
            # It asks the network for its newest version and for fonts.
            page.route(re.compile(r"^(?!http://127\.0\.0\.1)"), lambda route: route.abort())
            _open(page, f"http://127.0.0.1:{port}/?data={quote(query)}", server)
            page.wait_for_selector("text=op node count", timeout=60_000)
            said = page.inner_text("body")
    finally:
        server.kill()
        server.wait()
    assert re.search(rf"op node count\s+{len(graph['nodes'])}\b", said)


def _open(page: Any, address: str, server: subprocess.Popen[bytes]) -> None:
    """Open a page as soon as its server answers."""
    for _ in range(300):
        assert server.poll() is None, "the server of Model Explorer ended"
        try:
            page.goto(address)
            return
        except Exception:
            page.wait_for_timeout(200)
    raise AssertionError("the server of Model Explorer does not answer")
