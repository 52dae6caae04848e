"""The whole search on networks with planted culprits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.compare.task import callable_metric
from dovetail.data import split_samples
from dovetail.errors import DataError, DeviceError, DeviceNotFound, SearchError
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.search import (
    CostOptions,
    GateVerdict,
    Goal,
    SearchPolicy,
    Status,
    Trial,
    TuneOptions,
    TuneRequest,
    TuneResult,
    VendorCheck,
    Verdict,
    tune,
)
from dovetail.search.evaluator import Rewriter, simulator_of
from dovetail.search.pipeline import Pipeline
from dovetail.search.policy import CulpritPolicy, CutPolicy, EvaluationPolicy, PriorPolicy
from dovetail.search.prior import rank_units
from dovetail.search.space import make_space
from dovetail.search.trial import Scores
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples, labelled_samples, planted_detector

LOW = parse_placement("vsi:v853@u8")
LADDER = (parse_placement("vsi:v853@i16"),)
CPU = parse_placement("cpu@fp32")
COUNT = 40


def _right_scores(outputs: dict[str, AnyArray], labels: dict[str, AnyArray]) -> AnyArray:
    """Count a sample as right when its scores are within 0.04 and its boxes within 12 pixels."""
    off = np.abs(next(iter(outputs.values())) - labels["truth"])
    right: AnyArray = (off[:, 2:].max(axis=(1, 2, 3)) < 0.04) & (off[:, :2].max(axis=(1, 2, 3)) < 12)
    return right.astype(np.float64)


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
        costs=CostOptions(migrates=False, worthwhile=0.05),
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


JOINED = "node 'n9' (Concat) joins 't6' (up to 584) with 't8' (up to 0.573): one scale for ranges 1019 times apart"
"""Why the detector's Concat breaks."""


@pytest.fixture(scope="module")
def tuned() -> TuneResult:
    """Return the result of the search on the detector."""
    return tune(_request(planted_detector()))


def test_the_planted_culprit_is_found_and_nothing_else(tuned: TuneResult) -> None:
    assert tuned.accepted, tuned.summary
    (culprit,) = tuned.culprits
    assert (culprit.unit, culprit.op, culprit.placement) == ("n9", "Concat", LADDER[0])
    assert culprit.reason == f"breaks at vsi:v853@u8: {JOINED}"
    assert tuned.raised == tuned.culprits
    assert tuned.one_minimal
    assert [item.unit for item in tuned.evidence] == ["n9"]
    assert all(item.trial.status is Status.FAIL for item in tuned.evidence)
    assert tuned.gate.verdict is GateVerdict.QUANTISATION_BREAKS
    assert (tuned.holdout.low, tuned.holdout.tuned, tuned.holdout.float_score) == (0.0, 1.0, 1.0)


def test_the_front_ends_at_the_chosen_plan(tuned: TuneResult) -> None:
    assert sum(point.chosen for point in tuned.pareto) == 1
    chosen = next(point for point in tuned.pareto if point.chosen)
    assert chosen.meets_target
    assert not any(point.meets_target for point in tuned.pareto[: tuned.pareto.index(chosen)])
    fewer = [point for point in tuned.pareto if len(point.raised) < len(chosen.raised)]
    assert tuned.pareto[: len(fewer)] == tuple(fewer)


def test_every_plan_that_was_judged_is_counted(tuned: TuneResult) -> None:
    class Listener:
        def __init__(self) -> None:
            self.plans: set[str] = set()

        def stage(self, title: str) -> None:
            pass

        def trial(self, trial: Trial) -> None:
            self.plans.add(trial.plan_digest)

    listener = Listener()
    assert tune(_request(planted_detector()), listener).cost.trials == len(listener.plans) == tuned.cost.trials


def _beside_vendor(monkeypatch: pytest.MonkeyPatch, change: Callable[[AnyArray], AnyArray]) -> TuneResult:
    """Tune with a vendor whose backend gives the outputs of ours, changed."""
    original = Pipeline.outputs

    def outputs(self: Pipeline, plan: Plan, indices: Sequence[int]) -> dict[str, AnyArray]:
        ours = original(self, plan, indices)
        return {name: change(value.copy()) for name, value in ours.items()} if self._options.backends else ours

    monkeypatch.setattr(Pipeline, "outputs", outputs)
    return tune(_request(planted_detector(), vendor=VendorCheck("npusim", samples=3)))


def test_the_vendor_is_asked_before_a_plan_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    same = _beside_vendor(monkeypatch, lambda output: output)
    assert same.accepted
    assert "npusim on 3 samples: 100.00% of elements equal, loss 0 beside ours" in same.summary


def test_a_vendor_that_differs_a_little_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    def nudge(output: AnyArray) -> AnyArray:
        output[0, 2, 0, 0] += 0.001
        return output

    near = _beside_vendor(monkeypatch, nudge)
    assert near.accepted
    # One of 3 * 64 elements.
    assert "npusim on 3 samples: 99.48% of elements equal, loss 0 beside ours" in near.summary


def test_a_vendor_that_loses_what_the_goal_forbids_refuses_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(output: AnyArray) -> AnyArray:
        output[0] += 100.0
        return output

    refused = _beside_vendor(monkeypatch, breaks)
    assert not refused.accepted
    assert "npusim on 3 samples: 66.67% of elements equal, loss 0.3333 beside ours" in refused.summary


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
    assert result.gate.verdict is GateVerdict.NOTHING_TO_DO
    assert (result.culprits, result.accepted) == ((), True)


def test_a_goal_that_float_misses() -> None:
    with pytest.raises(SearchError, match="target unreachable: the float model scores 1, below 2"):
        tune(_request(planted_detector(), Goal(0.1, min_score=2.0)))


def test_a_goal_of_no_loss_at_all_is_met_with_what_breaks_raised() -> None:
    result = tune(_request(planted_detector(), Goal(0.0)))
    assert result.accepted
    assert result.holdout.tuned_exact == result.holdout.float_score == 1.0
    assert [item.op for item in result.culprits] == ["Concat"]


def test_a_goal_of_no_loss_at_all_that_no_plan_meets_is_said_to_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _planted(monkeypatch, lambda plan: True, lambda plan: False, Goal(0.0))
    assert not result.accepted
    assert result.summary.startswith("missed: loss ")


def test_a_float_model_that_scores_nothing_is_refused() -> None:
    request = replace(
        _request(planted_detector()), metric=callable_metric(lambda outputs, labels: np.zeros(len(labels["truth"])))
    )
    with pytest.raises(SearchError, match="scores 0 on each of 24 samples"):
        tune(request)


def _planted(
    monkeypatch: pytest.MonkeyPatch,
    searches: Callable[[Plan], bool],
    holds: Callable[[Plan], bool],
    goal: Goal | None = None,
) -> TuneResult:
    """Tune where either split is right or wrong on all samples, as two rules say; float is right."""
    request = _request(planted_detector(), goal or Goal(0.01))
    searched = set(request.splits.search)

    def score(plan: Plan, indices: Sequence[int]) -> Scores:
        rule = searches if set(indices) <= searched else holds
        right = plan.default != LOW or rule(plan)
        return Scores(float(right), np.full(len(indices), float(right)))

    monkeypatch.setattr(Rewriter, "evaluate", lambda self, plan, indices: score(plan, indices))
    monkeypatch.setattr(Pipeline, "evaluate", lambda self, plan, indices: score(plan, indices))
    return tune(request)


def test_what_only_the_hold_out_shows_raises_everything_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search split on which low precision does well cannot say what to raise, but whether more bits heal is seen."""
    healed = _planted(monkeypatch, lambda plan: True, lambda plan: len(plan.overrides) > 2)
    assert healed.verdict.is_within
    assert len(healed.raised) > 2
    lost = _planted(monkeypatch, lambda plan: True, lambda plan: False)
    assert lost.verdict is Verdict.MISSED
    assert not lost.raised


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
    with pytest.raises(DeviceNotFound, match="no backend simulates target 'cpu'"):
        simulator_of("cpu")
    assert simulator_of("vsi:v853").name == "npusim"
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
    calibration = calibrate(graph, labelled_samples(graph, COUNT))
    ranked = rank_units(make_space(graph, LOW, LADDER), calibration, PriorPolicy())
    assert (ranked[0].unit, ranked[0].reason) == ("n9", JOINED)
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)
    # The rule is about a ratio of 1019: with a larger one allowed, only the noise of tensors is left.
    lenient = rank_units(make_space(graph, LOW, LADDER), calibration, PriorPolicy(concat_ratio=2000.0))
    assert JOINED not in {item.reason for item in lenient}


def test_the_prior_ranks_unbalanced_channels_first() -> None:
    net = Network(5)
    trunk = net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 4, 3))
    weight = np.random.default_rng(0).normal(size=(3, 4, 1, 1)).astype(np.float32)
    weight[1] *= 2.0**-12
    hostile = net.op("Conv", trunk, net.constant(weight), shape=(1, 3, 4, 4))
    graph = net.graph(net.conv(net.op("Tanh", hostile), 2))
    calibration = calibrate(graph, labelled_samples(graph, 8))
    ranked = rank_units(make_space(graph, LOW, LADDER), calibration, PriorPolicy())
    assert ranked[0].unit == "n2"
    span = "tensor 't2' spans [-4.44, 1.45], step 0.0231, but index 1 of axis 1 has an RMS of 0.00044"
    assert ranked[0].reason == span


def test_a_spent_budget_gives_a_passing_plan_without_a_proof() -> None:
    spent = tune(_request(planted_detector(), max_plans=1))
    assert spent.accepted
    assert "Concat" in {item.op for item in spent.culprits}
    assert spent.evidence == ()
    assert not spent.one_minimal


def test_another_policy_is_another_search_on_the_same_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tune(_request(planted_detector(), journal=tmp_path / "j"))
    made = _counting(monkeypatch)
    # Nothing is trusted to the prior: other plans are tried, and what is known of others is not evaluated again.
    policy = SearchPolicy(culprits=CulpritPolicy(trusted=0))
    other = tune(_request(planted_detector(), journal=tmp_path / "j", policy=policy))
    assert other.plan.digest == first.plan.digest
    assert other.cost.recalled_samples > 0
    assert set(made.values()) <= {1}


def test_what_scores_may_depend_on_makes_them_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(_request(planted_detector(), journal=tmp_path / "j"))
    made = _counting(monkeypatch)
    policy = SearchPolicy(evaluation=EvaluationPolicy(CutPolicy(pieces=2)))
    cut = tune(_request(planted_detector(), journal=tmp_path / "j", policy=policy))
    assert cut.cost.recalled_samples == 0
    assert made
