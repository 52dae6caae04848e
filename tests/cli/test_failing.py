"""Compilers that crash, from the command line: the node is named, with a command, and remembered."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.ir import Graph, save_graph
from dovetail.ir.precision import Precision
from dovetail.plan import Placement, Plan
from dovetail.testing.networks import Network

from .conftest import Said

Run = Callable[..., Said]
WAY = "wild:crashes"


@pytest.fixture(scope="module", autouse=True)
def _installed(install: Callable[[str], None]) -> None:
    install("wildback")


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOVETAIL_FAILURES", str(tmp_path / "failures"))


def _graph() -> Graph:
    net = Network()
    made = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 2))
    return net.graph(net.op("Abs", net.op("Sigmoid", made)))


@pytest.fixture
def call(tmp_path: Path) -> list[object]:
    graph, model, plan = _graph(), tmp_path / "my model.dvg", tmp_path / "plan.json"
    save_graph(graph, model)
    Plan(graph.digest, Placement(WAY, Precision.FP32)).save(plan)
    return ["compile", model, "--plan", plan, "-o", tmp_path / "bundle"]


def test_a_crash_names_the_node_and_a_command(call: list[object], run: Run) -> None:
    said = run(*call)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "node 'n2' (Sigmoid): wild:crashes@fp32 said yes, and its compiler crashes on it: " in said.err
    assert "Option: --fallback." in said.err
    words = shlex.split(said.err.partition("dovetail reduce ")[2].partition(" writes a case")[0].rstrip("'"))
    assert words[words.index("--against") :][:2] == ["--against", "wildback"]
    assert "-o" in words
    again = run(*call)
    assert again.code == 2
    assert "as was seen before" in again.err
    listed = run("sdk", "failures")
    assert "Sigmoid" in listed.out
    assert "crashed" in listed.out


def test_with_a_fallback_the_answer_says_what_moved_and_how_to_see_it(call: list[object], run: Run) -> None:
    answer = json.loads(run(*call, "--fallback", "cpu@fp32", "--json").out)
    (move,) = answer["moves"]
    assert (move["nodes"], move["failing"]) == (["n2"], ["n2"])
    assert shlex.split(answer["reproduce"])[:2] == ["dovetail", "reduce"]
    page = run(*call, "--fallback", "cpu@fp32").out
    assert "writes a case for a report" in " ".join(page.split())


def test_a_budget_is_tries_and_seconds(call: list[object], run: Run) -> None:
    said = run(*call, "--fallback", "cpu@fp32", "--budget", "1/x")
    assert said.code == 2
    assert "TRIES[/SECONDS] is expected" in said.err
    assert run(*call, "--fallback", "cpu@fp32", "--budget", "1/900").code == 0


def test_everything_can_be_forgotten(call: list[object], run: Run, tmp_path: Path) -> None:
    run(*call)
    assert len(list((tmp_path / "failures").iterdir())) == 1
    assert len(json.loads(run("sdk", "failures", "--forget", "all", "--json").out)["forgotten"]) == 1
    assert list((tmp_path / "failures").iterdir()) == []
    assert run("sdk", "failures", "--forget", "all").code == 0
