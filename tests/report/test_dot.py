"""Drawings: every node and border is in them, names mean nothing to graphviz, and SVG goes through the real program."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import needs
import pytest

from dovetail.cli.drawing import write_drawing
from dovetail.errors import DovetailError
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.report.dot import draw_partitions, draw_plan, svg_of
from dovetail.testing.networks import Network

CPU, OTHER = (Placement(name, Precision.FP32) for name in ("cpu", "reference"))
NASTY = 'a"b\\c\nd<&>{|} -> "'


@pytest.fixture
def graphviz() -> None:
    """Ask for Graphviz."""
    needs.program("dot", "graphviz")


def _placed(*names: str) -> tuple[Graph, Plan]:
    net = Network()
    made = net.input("x", 1, 4)
    for name in names:
        made = net.named(name, "Relu", made)
    graph = net.graph(made)
    return graph, Plan(graph.digest, CPU, {names[1]: Override(OTHER, "test")})


def _drawings(*names: str) -> tuple[str, str]:
    graph, plan = _placed(*names)
    return draw_plan(graph, plan), draw_partitions(partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {}))))


def _texts(svg: bytes) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.usefixtures("graphviz")
def test_a_drawing_becomes_svg_with_every_node_and_border() -> None:
    plan, parts = (_texts(svg_of(drawing)) for drawing in _drawings("first", "second", "third"))
    assert {"first", "second", "third", "cpu@fp32", "reference@fp32", "x"} <= set(plan)
    assert {"0: cpu", "1: reference", "2: cpu", "first", "16 B", "1 node, 0 MACs"} <= set(parts)
    assert parts.count("16 B") == 2


@pytest.mark.usefixtures("graphviz")
@pytest.mark.parametrize("name", [NASTY, "html <b>x</b>", "\\N", "node", "}"])
def test_names_mean_nothing_to_graphviz(name: str) -> None:
    for drawing in _drawings("first", name, "third"):
        assert "third" in " ".join(_texts(svg_of(drawing)))


@pytest.mark.usefixtures("graphviz")
def test_the_file_is_written(tmp_path: Path) -> None:
    write_drawing(tmp_path / "plan.SVG", _drawings("a", "b", "c")[0])
    assert "b" in _texts((tmp_path / "plan.SVG").read_bytes())


@pytest.mark.usefixtures("graphviz")
def test_what_graphviz_refuses_is_told_in_one_line() -> None:
    with pytest.raises(DovetailError, match="graphviz: ") as caught:
        svg_of("digraph {")
    assert "\n" not in str(caught.value)


def test_without_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    drawing = _drawings("a", "b", "c")[0]
    with pytest.raises(DovetailError, match="graphviz, which is not installed") as caught:
        write_drawing(tmp_path / "plan.svg", drawing)
    assert ".dot" in str(caught.value)
    assert not (tmp_path / "plan.svg").exists()
    write_drawing(tmp_path / "plan.dot", drawing)
    assert (tmp_path / "plan.dot").read_text().startswith("# Made by dovetail")


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DovetailError, match=r"neither \.dot nor \.svg"):
        write_drawing(tmp_path / "plan.png", "")
