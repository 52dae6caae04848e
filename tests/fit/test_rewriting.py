"""A rewrite that changes float is not taken, however much it saves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail.backend.registry import known_targets
from dovetail.fit import rewriting
from dovetail.fit.advice import AdviceRequest
from dovetail.fit.recorded import RecordedRuns, all_recorded
from dovetail.fit.rewriting import TAKEN, UNPROVED, try_rewrites
from dovetail.ir import Graph, Node
from dovetail.passes.rewrites import REWRITES, Rewrite
from dovetail.passes.rewrites.base import Scene
from dovetail.passes.rewrites.large import SplitLargeKernels
from dovetail.report.advice import SimulatedOutcome, SimulatedRow


class _DropConv(Rewrite):
    """A lie: a convolution that keeps the size is left out."""

    name: ClassVar[str] = "drop"
    title: ClassVar[str] = "nothing instead of a convolution"

    def fits(self, graph: Graph, node: Node) -> bool:
        return node.op == "Conv"

    def build(self, scene: Scene, node: Node) -> None:
        scene.remove(node)
        scene.end(node, "Relu", (node.inputs[0],), {})


class _NotANumber(_DropConv):
    """A worse lie: what comes out is no number."""

    name: ClassVar[str] = "not-a-number"

    def build(self, scene: Scene, node: Node) -> None:
        scene.remove(node)
        bad = scene.constant("bad", np.array([np.nan], np.float32))
        scene.end(node, "Mul", (node.inputs[0], bad), {})


@pytest.fixture
def request_of(tmp_path: Path) -> AdviceRequest:
    """Return the request for a model with one large kernel."""
    rng = np.random.default_rng(1)
    weight = numpy_helper.from_array((rng.normal(size=(4, 4, 31, 31)) / 31).astype(np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "large", pads=[15] * 4)]
    shape = [1, 4, 40, 40]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, "large", infos[:1], infos[1:], [weight])
    path = tmp_path / "large.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return AdviceRequest(path, targets=("vsi:v853",))


@pytest.mark.parametrize("lie", [_DropConv(), _NotANumber()])
def test_what_changes_float_is_not_proved(request_of: AdviceRequest, lie: Rewrite) -> None:
    found = try_rewrites(request_of, (lie, SplitLargeKernels()))
    by_name = {row.name: row for row in found.rows}
    assert by_name[lie.name].outcome == UNPROVED
    assert by_name[lie.name].after.latency_ns < by_name["split-large-kernels"].after.latency_ns  # type: ignore[operator]
    assert found.taken == ("split-large-kernels",)
    assert by_name["split-large-kernels"].outcome == TAKEN


def test_rows_tell_what_each_does_alone(request_of: AdviceRequest) -> None:
    (row,) = try_rewrites(request_of, (SplitLargeKernels(),)).rows
    assert row.nodes == ("large",)
    assert (row.refused_before, row.refused_after) == (1, 0)
    assert (len(row.before.away), len(row.after.away)) == (1, 0)
    assert 0 < row.float_error < 1e-5


def test_what_nothing_is_recorded_of_is_told_so(request_of: AdviceRequest) -> None:
    (row,) = try_rewrites(replace(request_of, targets=("vsi:t527",)), (SplitLargeKernels(),)).rows
    assert row.outcome == TAKEN
    assert row.simulated is not None
    assert "nothing is recorded" in row.simulated.text


def test_records_are_of_rewrites_and_boards_that_there_are() -> None:
    names = {rewrite.name for rewrite in REWRITES}
    targets = {target.name for target in known_targets()}
    assert all_recorded()
    for run in all_recorded():
        assert run.rewrite in names
        assert run.target in targets
        assert run.networks > 0
        assert f"{run.networks} drawn networks" in run.text


@pytest.mark.parametrize(
    ("counts", "fails"), [((4, 0, 0, 0), False), ((0, 2, 2, 0), False), ((1, 0, 2, 0), True), ((0, 0, 0, 1), True)]
)
def test_what_mostly_failed_is_left_alone(counts: tuple[int, int, int, int], fails: bool) -> None:
    run = RecordedRuns("unroll-recurrent", "LSTM", "vsi:v853", "i8pc", *counts)
    assert run.mostly_fails is fails
    assert ("did not run" in run.text) is (counts[3] > 0)


def test_noise_beyond_rounding_is_another_answer() -> None:
    assert SimulatedOutcome.DIFFERS.is_bad
    assert SimulatedOutcome.FAILS.is_bad
    assert not SimulatedOutcome.NEARLY.is_bad
    row = SimulatedRow("vsi:v853", "u8", outcome=SimulatedOutcome.NEARLY, elements=256, differing=43, most_steps=4)
    assert row.text == "runs, nearly: 43 of 256 elements differ, by 4 steps at most"


@pytest.mark.parametrize(
    ("before", "after", "is_dearer"),
    [(100.0, 50.0, False), (100.0, 99.8, True), (100.0, 300.0, True), (None, 300.0, False), (100.0, None, False)],
)
def test_the_vendor_s_model_has_a_say_where_it_was_asked(
    before: float | None, after: float | None, is_dearer: bool
) -> None:
    row = SimulatedRow("vsi:v853", "u8", outcome=SimulatedOutcome.RUNS, before_ns=before, after_ns=after)
    assert rewriting._is_dearer(row) is is_dearer
    assert ("by the vendor's model" in row.text) is (before is not None and after is not None)


def test_what_the_simulator_fails_on_is_left_alone(request_of: AdviceRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rewrite is known that fails today: what the simulator says is planted."""
    found = SimulatedRow("vsi:v853", "u8", outcome=SimulatedOutcome.FAILS, why="no binary")
    monkeypatch.setattr(rewriting, "can_simulate", lambda _: True)
    monkeypatch.setattr(rewriting, "simulate", lambda *_: found)
    tried = try_rewrites(replace(request_of, targets=("vsi:v853",), simulate_seconds=1.0), (SplitLargeKernels(),))
    (row,) = tried.rows
    assert row.outcome == SimulatedOutcome.FAILS.value
    assert tried.taken == ()
