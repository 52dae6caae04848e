"""A vendor's compiler that really dies: the node is named, remembered, and avoided by later plans.

The crash is one that lowering avoids: one output channel with a bias and a scale per channel. Here it does not.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import needs
import pytest

from dovetail.backend.containment import WorkerLimits
from dovetail.backend.failures import FailureMemory
from dovetail.backend.registry import find_target
from dovetail.backends.verisilicon.lowering import accumulating
from dovetail.backends.verisilicon.lowering.view import NodeView
from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.cli.main import main
from dovetail.compile import CompileRequest, RepairRequest, compile_model, compile_repaired
from dovetail.errors import CompileError, CompileFailure
from dovetail.ir import AnyArray, Graph, TensorType, save_graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Placement, Plan, Recipe, make_plan
from dovetail.quantize import Range, Ranges, quantize
from dovetail.testing.networks import Network

from .conftest import target_named

pytestmark = pytest.mark.sdk

PLACE = Placement("vsi:v853", Precision.I8PC)
LATER = (Placement("vsi:v853", Precision.U8), Placement("cpu", Precision.FP32))
HOW = CompileRequest(backends={"vsi:v853": "vsi"})


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FailureMemory:
    """Let the compiler die of a scale per channel again, and remember it here."""
    needs.verisilicon()

    def as_it_comes(view: NodeView) -> tuple[AnyArray, TensorType]:
        value, kind = view.constant(1), view.kind(1)
        accumulating.check_formats(view, kind)
        return value, kind

    monkeypatch.setattr(accumulating, "read_weight", as_it_comes)
    monkeypatch.setenv("DOVETAIL_FAILURES", str(tmp_path / "failures"))
    return FailureMemory(tmp_path / "failures")


def _network(seed: int = 0) -> tuple[Graph, Ranges]:
    """Return a head with boxes and one score; the score is what kills the compiler."""
    net = Network(seed)
    made = net.input("x", 1, 3, 8, 8)
    for _ in range(2):
        made = net.op("Relu", net.conv(made, 4))
    score = net.op("Sigmoid", net.conv(made, 1))
    graph = net.graph(net.op("Concat", net.conv(made, 4), score, shape=(1, 5, 8, 8), axis=1))
    reals = [name for name, kind in graph.types.items() if name not in graph.constants]
    scale = 2.0 + seed
    return graph, Ranges(graph.digest, "stated", 1, {name: Range(-scale, scale) for name in reals})


def _score(graph: Graph) -> str:
    return next(node.name for node in graph.nodes if graph.types[node.outputs[0]].shape == (1, 1, 8, 8))


def test_a_real_crash_is_found_named_remembered_and_avoided(memory: FailureMemory) -> None:
    graph, ranges = _network()
    plan = Plan(graph.digest, PLACE)
    how = replace(HOW, memory=memory)
    with pytest.raises(
        CompileError, match=r"\(Conv\): vsi:v853@i8pc said yes, and VeriSilicon SDK .* SIGSEGV"
    ) as caught:
        compile_repaired(RepairRequest(graph, plan, ranges, (), how))
    assert caught.value.nodes == (_score(graph),)
    assert caught.value.failure is CompileFailure.CRASHED
    assert {entry.ops for entry in memory.entries()} == {("Conv",)}

    tried: list[int] = []
    request = RepairRequest(graph, plan, ranges, LATER, how, advance=lambda tries, nodes: tried.append(tries))
    repaired = compile_repaired(request)
    assert tried == [], "it is known already"
    assert [(move.nodes[0], move.after) for move in repaired.moves] == [(_score(graph), LATER[0])]

    # Other names, weights and ranges: the verdict knows of it before anything is quantised.
    other, _ = _network(1)
    target = profile_of(target_named("vsi:v853"))
    node = other.node(_score(other))
    verdict = target.verdict(other, node, Precision.I8PC)
    assert not verdict.supported
    assert "crashes on it, as was seen before" in verdict.reason
    assert target.capability(other, node, Precision.I8PC).supported
    assert target.verdict(other, node, Precision.U8).supported
    assert all(target.verdict(other, item, Precision.I8PC).supported for item in other.nodes if item is not node)
    made = make_plan(other, Recipe(PLACE, LATER), {"vsi:v853": target, "cpu": find_target("cpu")})
    assert made.placement(node.name) == LATER[0]

    memory.forget(memory.entries())
    assert target.verdict(other, node, Precision.I8PC).supported


def test_reduce_writes_a_case_that_crashes_again(
    memory: FailureMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, ranges = _network()
    save_graph(graph, tmp_path / "head.dvg")
    ranges.save(tmp_path / "ranges.json")
    Plan(graph.digest, PLACE).save(tmp_path / "plan.json")
    monkeypatch.chdir(tmp_path)
    call = "reduce head.dvg --plan plan.json --ranges ranges.json --against vsi -o case --json"
    assert main(call.split()) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [node["name"] for node in answer["nodes"]] == [_score(graph)]
    assert (answer["misbehaviour"], answer["minimal"], answer["remembered"]) == ("crashes", True, True)
    assert len(memory.entries()) == 2, "the part, and its stand-in"
    monkeypatch.chdir(tmp_path / "case")
    assert main(shlex.split(answer["command"])[1:]) == 2
    assert "SIGSEGV" in capsys.readouterr().err


def test_a_compile_limit_reaches_the_vendors_worker() -> None:
    """A shader takes seconds to compile: at a tenth of one it hangs, and twice of that is no other."""
    net = Network()
    graph = net.graph(net.op("Exp", net.input("x", 1, 64, 64, 64)))
    plan = Plan(graph.digest, Placement("vsi:v853", Precision.FP32))
    parts = partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))
    with pytest.raises(CompileError, match=r"took longer than 0 s") as caught:
        compile_model(parts, replace(HOW, limits=WorkerLimits(compile_s=0.1)))
    assert caught.value.failure is CompileFailure.HUNG
