"""What happens when a compiler says yes and then fails: contained, found, moved by the rule, reported."""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.backend import containment
from dovetail.backend.containment import WorkerLimits
from dovetail.backend.failures import FailureMemory
from dovetail.backends.reference import run_graph
from dovetail.compile import BlobCache, Isolation, RepairRequest, compile_model, compile_repaired
from dovetail.compile.model import Compiler
from dovetail.errors import CompileError, CompileFailure, DeviceError, DeviceLost
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import Partition, ReductionBudget, partition
from dovetail.plan import Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.runtime import Guard, SessionOptions, open_session
from dovetail.testing.networks import Network

CPU = Placement("cpu", Precision.FP32)


@pytest.fixture(scope="module", autouse=True)
def _installed(install: Callable[[str], None]) -> None:
    install("wildback")


@pytest.fixture(autouse=True)
def _time_flies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the limits of time pass as soon as the wild backend hangs, and never before."""
    mark = tmp_path / "hangs"
    monkeypatch.setenv("WILDBACK_HANGS", str(mark))

    def answers(source: int, within_s: float) -> bool:
        while not select.select([source], [], [], 0.05)[0]:
            if mark.exists():
                mark.unlink()
                return False
        return True

    monkeypatch.setattr(containment, "_answers", answers)


def _graph(bad: int = 1) -> Graph:
    net = Network()
    made = net.input("x", 1, 2, 4, 4)
    for index in range(4):
        made = net.op("Relu", net.conv(made, 2))
        if index < bad:
            made = net.op("Sigmoid", made)
    return net.graph(net.op("Abs", made))


def _request(way: str, bad: int = 1, rule: tuple[Placement, ...] = (CPU,)) -> RepairRequest:
    graph = _graph(bad)
    plan = Plan(graph.digest, Placement(f"wild:{way}", Precision.FP32))
    return RepairRequest(graph, plan, Ranges(graph.digest, "", 0, {}), rule)


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("refuses", "internal compiler error 42"),
        ("raises", "ZeroDivisionError: a defect"),
        ("crashes", "SIGSEGV"),
        ("exits", "exit code 3"),
        ("hangs", "within 600 s"),
        ("babbles", "too much to say"),
    ],
)
def test_the_offending_unit_moves_and_the_rest_stays(way: str, says: str) -> None:
    request = _request(way)
    found = compile_repaired(request)
    (move,) = found.moves
    assert [request.graph.node(name).op for name in move.nodes] == ["Sigmoid"]
    assert move.after == CPU
    assert says in move.reason
    assert says in found.plan.reason(move.nodes[0])
    targets = [part.target for part in found.bundle.partitions]
    assert targets == [f"wild:{way}", "cpu", f"wild:{way}"]
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 4)).astype(np.float32)
    with open_session(found.bundle) as session:
        run = session.run({"x": x})
    expected = run_graph(request.graph, {"x": x})
    for name in request.graph.outputs:
        np.testing.assert_allclose(run.outputs[name], expected[name], rtol=1e-5)


def test_every_offending_unit_is_found_in_few_compilations() -> None:
    found = compile_repaired(_request("refuses", bad=3))
    assert len(found.moves) == 3
    assert {node for move in found.moves for node in move.nodes} == {"n2", "n5", "n8"}


def test_without_a_place_to_go_it_is_an_error_that_names_the_unit() -> None:
    with pytest.raises(
        CompileError, match=r"node 'n2' \(Sigmoid\): wild:crashes@fp32 said yes, and .* crashes on it: .*SIGSEGV"
    ) as caught:
        compile_repaired(_request("crashes", rule=()))
    assert caught.value.option == "fallback"
    assert caught.value.nodes == ("n2",)
    assert caught.value.failure is CompileFailure.CRASHED
    assert "\n" not in str(caught.value)


def test_a_refusal_is_not_searched_without_being_asked() -> None:
    with pytest.raises(CompileError, match=r"partition 0 \(wild:refuses, backend wildback\).*error 42") as caught:
        compile_repaired(_request("refuses", rule=()))
    assert caught.value.nodes == ()


def test_what_is_killed_from_outside_is_nobodys_fault(tmp_path: Path) -> None:
    request = _remembering(_request("starves"), tmp_path)
    with pytest.raises(CompileError, match=r"partition 0 .*SIGKILL") as caught:
        compile_repaired(request)
    assert caught.value.failure is CompileFailure.KILLED
    assert FailureMemory(tmp_path).entries() == ()


def test_several_nodes_that_fail_together_are_named_and_one_moves() -> None:
    found = compile_repaired(_request("together"))
    (move,) = found.moves
    assert move.failing == ("n2", "n9")
    assert move.nodes == ("n9",)
    assert "nodes 'n2' (Sigmoid) and 'n9' (Abs) together" in move.reason
    assert [part.target for part in found.bundle.partitions] == ["wild:together", "cpu"]


def _remembering(request: RepairRequest, folder: Path) -> RepairRequest:
    return replace(request, compile=replace(request.compile, memory=FailureMemory(folder)))


@pytest.mark.parametrize(("way", "ops"), [("crashes", ("Sigmoid",)), ("together", ("Sigmoid", "Abs"))])
def test_what_crashed_is_refused_at_once_under_any_name(
    way: str, ops: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile_repaired(_remembering(_request(way), tmp_path))
    (entry,) = FailureMemory(tmp_path).entries()
    assert (entry.ops, entry.failure, entry.scope.target) == (ops, CompileFailure.CRASHED, f"wild:{way}")
    assert "SIGSEGV" in entry.reason

    def no_worker(*_: object) -> None:
        raise AssertionError("a part that is known to crash was compiled")

    monkeypatch.setattr("dovetail.compile.model.compile_contained", no_worker)
    plain = _remembering(_request(way), tmp_path)
    renamed = replace(plain, graph=_renamed(plain.graph))
    renamed = replace(
        renamed,
        plan=replace(plain.plan, graph_digest=renamed.graph.digest),
        ranges=Ranges(renamed.graph.digest, "", 0, {}),
        rule=(),
    )
    with pytest.raises(CompileError, match=r"as was seen before.*SIGSEGV") as caught:
        compile_repaired(renamed)
    assert caught.value.nodes == tuple(f"other {name}" for name in first.moves[0].failing)


def _renamed(graph: Graph) -> Graph:
    def tensors(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"other {name}" if name else "" for name in names)

    return Graph(
        "other",
        tuple(
            replace(
                node, name=f"other {node.name}", inputs=tensors(node.inputs), outputs=tensors(node.outputs), origin=()
            )
            for node in graph.nodes
        ),
        tensors(graph.inputs),
        tensors(graph.outputs),
        {f"other {name}": kind for name, kind in graph.types.items()},
        {f"other {name}": value for name, value in graph.constants.items()},
    )


def test_a_known_failure_moves_its_unit_without_a_search(tmp_path: Path) -> None:
    request = _remembering(_request("crashes"), tmp_path)
    first, tried = compile_repaired(request), list[int]()
    again = compile_repaired(replace(request, advance=lambda tries, nodes: tried.append(tries)))
    assert tried == []
    assert again.plan.overrides.keys() == first.plan.overrides.keys()
    assert again.bundle.partitions == first.bundle.partitions


def test_a_hang_is_believed_at_twice_the_time_if_that_is_left(tmp_path: Path) -> None:
    request = _remembering(_request("hangs"), tmp_path)
    compile_repaired(request)
    assert FailureMemory(tmp_path).entries() == (), "the budget is 600 s, and twice the limit is 1200"
    compile_repaired(replace(request, budget=ReductionBudget(100, 3000.0)))
    (entry,) = FailureMemory(tmp_path).entries()
    assert entry.failure is CompileFailure.HUNG
    assert "within 600 s" in entry.reason


def test_a_hang_that_ends_at_twice_the_time_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def only_once(compiler: Compiler, part: Partition, failure: CompileFailure) -> bool:
        asked.append(compiler.limit_s)
        return False

    monkeypatch.setattr(Compiler, "fails_again", only_once)
    compile_repaired(replace(_remembering(_request("hangs"), tmp_path), budget=ReductionBudget(100, 3000.0)))
    assert asked == [600.0]
    assert FailureMemory(tmp_path).entries() == ()


def test_where_the_budget_ends_everything_that_is_left_moves() -> None:
    found = compile_repaired(replace(_request("refuses", bad=3), budget=ReductionBudget(1)))
    assert all("the budget ended" in move.reason for move in found.moves)
    assert {node for move in found.moves for node in move.nodes} >= {"n2", "n5", "n8"}


def test_nothing_moves_without_being_asked() -> None:
    request = _request("crashes")
    cut = partition(quantize(request.graph, request.plan, request.ranges))
    with pytest.raises(CompileError, match=r"partition 0 \(wild:crashes, backend wildback\).*SIGSEGV"):
        compile_model(cut, request.compile)


def test_a_plan_that_compiles_is_left_alone() -> None:
    request = _request("crashes", bad=0)
    found = compile_repaired(request)
    assert found.moves == ()
    assert found.plan == request.plan


def test_the_cache_spares_what_did_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = _request("refuses")
    request = replace(request, compile=replace(request.compile, isolation=Isolation.NONE, cache=BlobCache(tmp_path)))
    first = compile_repaired(request)
    from wildback import WildBackend

    def compile_nothing(*_: object) -> None:
        raise AssertionError("compiled again")

    plan = first.plan
    monkeypatch.setattr(WildBackend, "compile", compile_nothing)
    again = compile_repaired(replace(request, plan=plan))
    assert again.bundle == first.bundle


@pytest.mark.parametrize("way", ["run-crashes", "run-hangs", "run-raises"])
def test_a_device_that_fails_is_lost_and_this_process_lives(way: str) -> None:
    request = _request(way)
    bundle = compile_model(partition(quantize(request.graph, request.plan, request.ranges)), request.compile)
    x = np.zeros((1, 2, 4, 4), np.float32)
    with open_session(bundle, SessionOptions(limits=WorkerLimits())) as session:
        kind = DeviceError if way == "run-raises" else DeviceLost
        with pytest.raises(kind) as caught:
            session.run({"x": x})
    assert "\n" not in str(caught.value)
    assert f"wild:{way}" in str(caught.value)


@pytest.mark.parametrize(
    ("way", "says"),
    [("run-nan", "holds NaN"), ("run-shape", "has shape"), ("run-type", "is float64"), ("run-nothing", "is missing")],
)
def test_wrong_answers_are_caught_at_the_border(way: str, says: str) -> None:
    request = _request(way)
    bundle = compile_model(partition(quantize(request.graph, request.plan, request.ranges)), request.compile)
    with open_session(bundle, SessionOptions(Guard.NUMBERS)) as session, pytest.raises(DeviceError, match=says):
        session.run({"x": np.zeros((1, 2, 4, 4), np.float32)})


def test_a_contained_run_gives_the_same(tmp_path: Path) -> None:
    request = _request("refuses", bad=0)
    bundle = compile_model(partition(quantize(request.graph, request.plan, request.ranges)), request.compile)
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 4)).astype(np.float32)
    with open_session(bundle) as here, open_session(bundle, SessionOptions(limits=WorkerLimits())) as there:
        expected, run = here.run({"x": x}), there.run({"x": x})
    for name, value in expected.outputs.items():
        np.testing.assert_array_equal(run.outputs[name], value)
    assert 0 < run.timings[0].transfer_ns < run.timings[0].elapsed_ns
