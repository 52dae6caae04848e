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
from dovetail.backends.reference import run_graph
from dovetail.compile import BlobCache, Isolation, RepairRequest, compile_model, compile_repaired
from dovetail.errors import CompileError, DeviceError, DeviceLost
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
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
    with pytest.raises(CompileError, match=r"n2: wild:crashes@fp32 said yes .*SIGSEGV") as caught:
        compile_repaired(_request("crashes", rule=()))
    assert caught.value.option == "fallback"
    assert "\n" not in str(caught.value)


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
