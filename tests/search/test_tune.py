"""The whole search on networks with planted culprits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dovetail.compare.task import callable_metric
from dovetail.data import split_samples
from dovetail.errors import DataError, DeviceError, DeviceNotFound, SearchError
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.search import (
    GateVerdict,
    Goal,
    Status,
    Trial,
    TuneOptions,
    TuneRequest,
    TuneResult,
    VendorCheck,
    tune,
)
from dovetail.search.accept import Acceptance
from dovetail.search.evaluator import Rewriter
from dovetail.search.hunt import Found, Guide, Hunt, HuntOptions
from dovetail.search.journal import Journal, Scores
from dovetail.search.oracle import Bar, Oracle, Split
from dovetail.search.pipeline import Pipeline
from dovetail.search.prior import suspect
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.space import make_space
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples, labelled_samples, planted_detector

LOW = parse_placement("vsi:v853@u8")
LADDER = (parse_placement("vsi:v853@i16"),)
CPU = parse_placement("cpu@fp32")
COUNT = 40


def _right_scores(outputs: dict[str, AnyArray], labels: dict[str, AnyArray]) -> AnyArray:
    """Count a sample as right when its scores are within 0.04 and its boxes within 12 pixels."""
    off = np.abs(next(iter(outputs.values())) - labels["truth"])
    found: AnyArray = (off[:, 2:].max(axis=(1, 2, 3)) < 0.04) & (off[:, :2].max(axis=(1, 2, 3)) < 12)
    return found.astype(np.float64)


def _request(graph: Graph, goal: Goal | None = None, **options: object) -> TuneRequest:
    source = labelled_samples(graph, COUNT)
    return TuneRequest(
        graph=graph,
        calibration=calibrate(graph, source),
        samples=source,
        splits=split_samples(source),
        metric=callable_metric(_right_scores),  # type: ignore[arg-type]
        goal=goal or Goal(0.1),
        low=LOW,
        ladder=LADDER,
        options=TuneOptions(**options),  # type: ignore[arg-type]
    )


def _counting(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, tuple[int, ...]]]:
    """Count every evaluation that is really made."""
    made: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def wrap(kind: str, original: Callable[..., Scores]) -> Callable[..., Scores]:
        def evaluate(self: object, plan: Plan, indices: Sequence[int]) -> Scores:
            made[kind + plan.digest, tuple(indices)] += 1
            return original(self, plan, indices)

        return evaluate

    monkeypatch.setattr(Rewriter, "evaluate", wrap("fast", Rewriter.evaluate))
    monkeypatch.setattr(Pipeline, "evaluate", wrap("exact", Pipeline.evaluate))
    return made


@pytest.fixture(scope="module")
def found() -> TuneResult:
    """Return the result of the search on the detector."""
    return tune(_request(planted_detector()))


def test_the_planted_culprit_is_found_and_nothing_else(found: TuneResult) -> None:
    assert found.accepted, found.summary
    assert [(item.op, item.placement.target) for item in found.culprits] == [("Concat", "cpu")] or [
        item.op for item in found.culprits
    ] == ["Concat"]
    assert found.one_minimal
    assert [item.unit for item in found.evidence] == [item.unit for item in found.culprits]
    assert all(item.trial.status is Status.FAIL for item in found.evidence)
    assert found.verdict in (GateVerdict.QUANTISATION_BREAKS, GateVerdict.SIXTEEN_BITS_FAIL)
    assert found.holdout.tuned > found.holdout.low
    assert "640" in found.culprits[0].reason or "range" in found.culprits[0].reason


def test_the_front_ends_at_the_chosen_plan(found: TuneResult) -> None:
    assert sum(point.chosen for point in found.pareto) == 1
    chosen = next(point for point in found.pareto if point.chosen)
    assert chosen.meets_target
    assert not any(point.meets_target for point in found.pareto[: found.pareto.index(chosen)])
    fewer = [point for point in found.pareto if len(point.raised) < len(chosen.raised)]
    assert found.pareto[: len(fewer)] == tuple(fewer)


def test_the_vendor_is_asked_before_a_plan_is_accepted() -> None:
    judged = tune(_request(planted_detector(), vendor=VendorCheck("npusim", samples=3)))
    assert judged.accepted
    assert "npusim on 3 samples: 100.00% of elements equal, loss 0 beside ours" in judged.summary


def test_a_vendor_that_cannot_test_a_plan_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Pipeline, plan: Plan, indices: Sequence[int]) -> dict[str, object]:
        raise DeviceError("the worker died.")

    monkeypatch.setattr("dovetail.search.vendor.VendorJudge._outputs", broken)
    judged = tune(_request(planted_detector(), vendor=VendorCheck("npusim", samples=3)))
    assert not judged.accepted
    assert "npusim cannot test it: the worker died." in judged.summary


def test_nothing_is_evaluated_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _counting(monkeypatch)
    tune(_request(planted_detector()))
    assert set(made.values()) == {1}


def test_the_same_journal_gives_the_same_answer_without_any_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tune(_request(planted_detector(), journal=tmp_path / "j"))
    made = _counting(monkeypatch)
    again = tune(_request(planted_detector(), journal=tmp_path / "j"))
    assert not made
    assert again.plan.digest == first.plan.digest
    assert again.cost.fresh_samples == 0
    assert again.cost.recalled_samples == first.cost.fresh_samples


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_killed_search_resumes_and_repeats_nothing(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killer:
        def __init__(self) -> None:
            self.trials = 0

        def stage(self, title: str) -> None:
            pass

        def trial(self, trial: Trial) -> None:
            if self.trials == after:
                raise KeyboardInterrupt
            self.trials += 1

    made = _counting(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        tune(_request(planted_detector(), journal=tmp_path / "j"), Killer())
    resumed = tune(_request(planted_detector(), journal=tmp_path / "j"))
    assert set(made.values()) == {1}
    assert resumed.plan.digest == tune(_request(planted_detector())).plan.digest


def test_another_metric_does_not_use_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(_request(planted_detector(), journal=tmp_path / "j"))
    made = _counting(monkeypatch)
    tune(replace(_request(planted_detector(), journal=tmp_path / "j"), metric_identity="another"))
    assert made


def test_a_goal_that_low_precision_meets_raises_nothing() -> None:
    result = tune(_request(planted_detector(), Goal(1.0)))
    assert result.verdict is GateVerdict.NOTHING_TO_DO
    assert (result.culprits, result.accepted) == ((), True)


def test_a_goal_that_float_misses() -> None:
    with pytest.raises(SearchError, match="target unreachable: the float model scores 1, below 2"):
        tune(_request(planted_detector(), Goal(0.1, min_score=2.0)))


def test_a_goal_of_no_loss_at_all_is_met_or_said_to_be_missed() -> None:
    result = tune(_request(planted_detector(), Goal(0.0)))
    assert result.accepted == (result.holdout.tuned >= result.holdout.float_score)


def test_a_float_model_that_scores_nothing_is_refused() -> None:
    request = replace(
        _request(planted_detector()), metric=callable_metric(lambda outputs, labels: np.zeros(len(labels["truth"])))
    )
    with pytest.raises(SearchError, match="scores 0 on each of 24 samples"):
        tune(request)


def _planted(
    monkeypatch: pytest.MonkeyPatch, searches: Callable[[Plan], bool], holds: Callable[[Plan], bool]
) -> TuneResult:
    """Tune where either split is right or wrong on all samples, as two rules say; float is right."""
    request = _request(planted_detector(), Goal(0.01))
    searched: list[tuple[int, ...]] = []
    original = Oracle.__init__

    def remember(self: Oracle, recorded: RecordedEvaluator, journal: Journal, part: Split, plan: Plan) -> None:
        if part.name == "search":
            searched.append(part.indices)
        original(self, recorded, journal, part, plan)

    def score(plan: Plan, indices: Sequence[int]) -> Scores:
        rule = searches if set(indices) <= set(searched[0]) else holds
        right = plan.default != LOW or rule(plan)
        return Scores(float(right), np.full(len(indices), float(right)))

    monkeypatch.setattr(Oracle, "__init__", remember)
    monkeypatch.setattr(Rewriter, "evaluate", lambda self, plan, indices: score(plan, indices))
    monkeypatch.setattr(Pipeline, "evaluate", lambda self, plan, indices: score(plan, indices))
    return tune(request)


def test_units_are_raised_on_suspicion_when_only_the_hold_out_shows_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search split on which low precision does well, and a hold-out on which only enough raised units do."""
    result = _planted(monkeypatch, lambda plan: True, lambda plan: len(plan.overrides) > 2)
    assert result.accepted, result.summary
    assert len(result.plan.overrides) > 2
    assert "plans were tried on it" in result.summary
    assert not result.one_minimal


def test_what_is_raised_on_suspicion_is_good_enough_for_the_search_split_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def searches(plan: Plan) -> bool:
        return not 2 < len(plan.overrides) < 5

    result = _planted(monkeypatch, searches, lambda plan: len(plan.overrides) > 2)
    assert result.accepted, result.summary
    assert searches(result.plan)
    assert result.search.tuned == 1
    assert result.certificate is not None


def test_the_last_rung_is_tried_before_a_search_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hold-out split on which nothing but float on the CPU does."""

    def floats(plan: Plan) -> int:
        return sum(item.placement.precision is Precision.FP32 for item in plan.overrides.values())

    result = _planted(monkeypatch, lambda plan: True, lambda plan: floats(plan) > 2)
    assert result.accepted, result.summary
    assert floats(result.plan) > 2


def test_nothing_can_run_low() -> None:
    net = Network()
    graph = net.graph(net.op("Einsum", net.input("x", 1, 2, 4, 4), equation="abcd->abcd"))
    with pytest.raises(SearchError, match="no node of 'net' can run at vsi:v853@u8"):
        tune(_request(graph))


def test_one_sample_is_too_few_and_an_unknown_target_is_named() -> None:
    request = _request(planted_detector())
    with pytest.raises(SearchError, match="splits are not of these 1 samples"):
        tune(replace(request, samples=labelled_samples(planted_detector(), 1)))
    with pytest.raises(DataError, match="empty"):
        tune(replace(request, samples=HeldSamples([])))
    with pytest.raises(DeviceNotFound, match="target 'vsi:v85' is unknown"):
        tune(replace(request, low=parse_placement("vsi:v85@u8")))


def _with_control_flow() -> Graph:
    """Return the detector with an If in front of its head, which only the CPU runs."""
    graph = planted_detector()
    kind, last = graph.types["t3"], graph.nodes[4:]
    bodies: dict[str, object] = {
        key: Graph(key, (Node(op, op, ("t3",), ("r",)),), (), ("r",), {"t3": kind, "r": kind}, captures=("t3",))
        for key, op in (("then_branch", "Identity"), ("else_branch", "Abs"))
    }
    types = {
        **graph.types,
        "flag": TensorType(DType.BOOL, ()),
        "sum": TensorType(DType.F32, ()),
        "z": kind,
        "zero": TensorType(DType.F32, ()),
    }
    nodes = (
        *graph.nodes[:4],
        Node("sum", "ReduceSum", ("t3",), ("sum",), {"keepdims": 0}),
        Node("test", "Greater", ("sum", "zero"), ("flag",)),
        Node("choose", "If", ("flag",), ("z",), bodies),
        *(replace(node, inputs=tuple("z" if name == "t3" else name for name in node.inputs)) for node in last),
    )
    constants = {**graph.constants, "zero": np.array(0.0, np.float32)}
    return graph.evolve(nodes=nodes, types=types, constants=constants)


def test_a_model_with_nodes_that_no_npu_takes_can_be_searched() -> None:
    result = tune(_request(_with_control_flow()))
    assert result.accepted, result.summary
    assert result.plan.placement("choose") == CPU
    assert "Concat" in [item.op for item in result.culprits]


def test_the_prior_ranks_a_concat_of_boxes_and_scores_first() -> None:
    graph = planted_detector()
    ranked = suspect(make_space(graph, LOW, LADDER), calibrate(graph, labelled_samples(graph, COUNT)))
    assert graph.node(ranked[0].unit).op == "Concat"
    assert "640" in ranked[0].reason or "63" in ranked[0].reason or "apart" in ranked[0].reason
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)


def test_the_prior_ranks_unbalanced_channels_first() -> None:
    net = Network(5)
    trunk = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 4, 3))
    weight = np.random.default_rng(0).normal(size=(3, 4, 1, 1)).astype(np.float32)
    weight[1] *= 2.0**-12
    hostile = net.op("Conv", trunk, net.constant(weight), shape=(1, 3, 4, 4))
    graph = net.graph(net.conv(net.op("Tanh", hostile), 2))
    ranked = suspect(make_space(graph, LOW, LADDER), calibrate(graph, labelled_samples(graph, 8)))
    assert ranked[0].unit == "n2"
    assert "channel 1" in ranked[0].reason or "index 1" in ranked[0].reason


def test_a_spent_budget_gives_a_passing_plan_without_a_proof() -> None:
    spent = tune(_request(planted_detector(), max_plans=1))
    assert spent.accepted
    assert "Concat" in {item.op for item in spent.culprits}
    assert spent.evidence == ()
    assert not spent.one_minimal


def test_no_other_round_begins_when_the_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[object] = []
    original = Hunt.find

    def find(self: Hunt, bar: Bar, climbs: bool = True, guide: Guide | None = None) -> Found | None:
        bars.append(bar)
        return original(self, bar, climbs, guide)

    monkeypatch.setattr(Hunt, "find", find)
    refused = Acceptance(False, "refused", Trial("", (), Status.FAIL, 0.0, 1.0, 1, 1))
    monkeypatch.setattr(import_module("dovetail.search.tune"), "accept", lambda *_: refused)
    assert not tune(_request(planted_detector(), max_plans=1)).accepted
    assert len(bars) == 1
    tune(_request(planted_detector()))
    assert len(bars) > 2


class _Graded:
    """An oracle that loses less the more units are raised, and counts what it is asked at each bar."""

    width = 1
    indices = (0,)

    def __init__(self) -> None:
        self.asked: list[tuple[str, Bar]] = []

    def ahead(self, plans: Sequence[Plan]) -> None:
        """Begin nothing."""

    def judge(self, plan: Plan, raised: Sequence[str], bar: Bar, *, race: bool = True) -> Trial:
        self.asked.append((plan.digest, bar))
        score = 1 - 0.1 / (1 + len(raised))
        return Trial(
            plan.digest, tuple(raised), Status.PASS if bar.met_by(1 - score) else Status.FAIL, score, 1.0, 1, 1
        )


def test_a_stricter_bar_is_met_by_the_smallest_plan_that_was_tried_already() -> None:
    space = make_space(planted_detector(), LOW, LADDER)
    oracle = _Graded()
    silent: Any = SimpleNamespace(stage=lambda _: None, trial=lambda _: None)
    graph = planted_detector()
    ranked = suspect(space, calibrate(graph, labelled_samples(graph, COUNT)))
    hunt = Hunt(ranked, space, None, oracle, HuntOptions(silent, 100))  # type: ignore[arg-type]
    for count in (0, 1, 2, 4):
        hunt.judge(hunt._raise_some(frozenset(item.unit for item in ranked[:count])), Bar(0.2))
    known = {digest for digest, _ in oracle.asked}
    found = hunt.known(Bar(0.04))
    assert found is not None
    assert len(found.raised) == 2
    assert {digest for digest, _ in oracle.asked} == known
    assert hunt.known(Bar(0.001)) is None
