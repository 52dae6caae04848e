"""The margin: units that the samples do not ask for, where few samples cannot show the loss."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.compare.task import Arrays, TaskMetric, callable_metric
from dovetail.data import open_samples, specs_of, split_samples
from dovetail.errors import CostError
from dovetail.ir import AnyArray
from dovetail.plan import Limits, Placement, Plan, Recipe, parse_placement
from dovetail.report import make_report, page_text, report_page
from dovetail.search import CostOptions, Goal, TuneOptions, TuneRequest, TuneResult, parse_goal, tune
from dovetail.search.acceptance import simulate_on_holdout
from dovetail.search.candidate import Candidate
from dovetail.search.cheapest import cheapest
from dovetail.search.context import SearchContext
from dovetail.search.evaluator import EvaluationData
from dovetail.search.holdout import settle
from dovetail.search.ledger import Ledger
from dovetail.search.margin import affordable, with_margin
from dovetail.search.pipeline import Pipeline
from dovetail.search.policy import MarginPolicy
from dovetail.search.samples import SampleSet
from dovetail.testing.networks import Network

from .stages import LOW, WIDE, Setting, open_stages

FOLDER = Path(__file__).parents[2] / "examples" / "digits"
FEW = range(120)
UNSEEN = range(120, 800)
COUNT = 100
"""Samples of each split of a planted search."""


def _but(units: Sequence[str], unit: str) -> dict[str, Placement]:
    """Return a plan that raises all units but one."""
    return {name: WIDE for name in units if name != unit}


def _some(lost: int) -> AnyArray:
    """Return losses of 1 on some samples of each split, none of which comes early: no plan is rejected on a few."""
    losses = np.zeros(2 * COUNT)
    late = np.linspace(COUNT // 2, COUNT - 1, lost).astype(int)
    losses[[*late, *(COUNT + late)]] = 1.0
    return losses


def _same(loss: float) -> AnyArray:
    """Return the same loss on every sample."""
    return np.full(2 * COUNT, loss)


def _open(alone: AnyArray, wider: AnyArray, margin: float = 50.0, **setting: object) -> tuple[SearchContext, Ledger]:
    """Return a search where n0 has to be raised; with it alone and with more the samples lose as given."""

    def loss(plan: Plan, indices: Sequence[int]) -> AnyArray:
        if plan.placement("n0") == LOW:
            return np.full(len(indices), 0.5)
        more = sum(plan.placement(f"n{index}") != LOW for index in range(6)) > 1
        return (wider if more else alone)[list(indices)]

    net = Network(1)
    last = net.input("x", 1, 8, 24, 24)
    for _ in range(6):
        last = net.conv(last, 8, 3)
    return open_stages(
        Setting(
            net.graph(last),
            loss,
            goal=Goal(0.06),
            searched=COUNT,
            held=COUNT,
            costs=CostOptions(margin=margin),
            **setting,  # type: ignore[arg-type]
        )
    )


def _margin_of(context: SearchContext, ledger: Ledger) -> Candidate:
    """Return what becomes of the plan that raises n0."""
    candidate = simulate_on_holdout(context, ledger, context.candidate(context.raised(["n0"], top=False)))
    return with_margin(context, ledger, candidate)


def test_a_margin_that_makes_the_spread_smaller_is_taken_though_the_mean_grows() -> None:
    widened = _margin_of(*_open(_some(3), _same(0.055)))
    assert widened.accepted
    assert widened.margin_units
    assert widened.margin_units | {"n0"} == set(widened.raised)


def test_a_margin_that_only_makes_the_mean_smaller_is_not_taken() -> None:
    """The plan was selected for its mean: what looks better than that by chance is no reason."""
    plain = _margin_of(*_open(_same(0.05), _some(2)))
    assert plain.accepted
    assert not plain.margin_units
    assert set(plain.raised) == {"n0"}


def test_a_margin_that_the_hold_out_or_the_search_split_refuses_is_not_taken() -> None:
    searched, held = _same(0.01), _same(0.01)
    searched[:COUNT] = 0.07
    held[COUNT:] = 0.07
    for wider in (searched, held):
        assert not _margin_of(*_open(_some(3), wider)).margin_units


def test_a_margin_that_only_the_exact_simulation_refuses_is_not_taken() -> None:
    def exact(plan: Plan, indices: Sequence[int]) -> AnyArray:
        return np.full(len(indices), 0.07 if plan.placement("n1") != LOW or plan.placement("n5") != LOW else 0.03)

    context, ledger = _open(_some(3), _same(0.055), exact_loss=exact)
    plain = _margin_of(context, ledger)
    assert plain.accepted
    assert not plain.margin_units
    assert len(ledger.looked_at) > 1


def test_a_plan_that_the_hold_out_refuses_may_be_accepted_with_a_margin() -> None:
    context, ledger = _open(_some(8), _same(0.01))
    refused = simulate_on_holdout(context, ledger, context.candidate(context.raised(["n0"], top=False)))
    assert not refused.accepted
    assert with_margin(context, ledger, refused).accepted


@pytest.mark.parametrize(
    "change",
    [
        {"margin": 0.0},
        {"wishes": Recipe(LOW, (WIDE,), limits=Limits(latency_ns=1.0))},
        {"priced": False},
    ],
    ids=["no latency", "limits", "no prices"],
)
def test_without_room_there_is_no_margin(change: dict[str, object]) -> None:
    assert not _margin_of(*_open(_some(3), _same(0.0), **change)).margin_units  # type: ignore[arg-type]


def test_plans_with_a_margin_do_not_count_against_the_budget() -> None:
    context, ledger = _open(_some(3), _same(0.055), max_plans=1)
    assert _margin_of(context, ledger).margin_units
    assert ledger.trials
    assert not ledger.is_exhausted


def test_what_is_within_the_goal_needs_no_margin() -> None:
    plain = _margin_of(*_open(_same(0.0), _same(0.0)))
    assert plain.accepted
    assert plain.margin is not None
    assert plain.margin.is_within
    assert not plain.margin_units


def test_the_proof_is_of_the_plan_without_its_margin() -> None:
    context, ledger = _open(_some(3), _same(0.0), margin=0.2)
    prover = context.prover
    assert prover is not None
    start = context.candidate(context.raised(["n0"], top=False))
    assert ledger.judge(start.raised, context.tolerance).passed
    proven = cheapest(context, ledger, start, context.tolerance, prover)
    widened = with_margin(context, ledger, simulate_on_holdout(context, ledger, proven))
    before, after = proven.certificate, widened.certificate
    assert widened.margin_units
    assert before is not None
    assert after is not None
    assert after.cost.latency_ns <= before.cost.latency_ns * 1.2 * (1 + 1e-9)
    assert after.margin_ns == pytest.approx(after.cost.latency_ns - before.cost.latency_ns)
    assert after.lower_bound_ns == before.lower_bound_ns
    assert after.gap == pytest.approx(before.gap)
    assert widened.evidence == proven.evidence


def test_a_margin_on_what_was_raised_without_proof_has_its_price() -> None:
    context, ledger = _open(_some(3), _same(0.0), margin=0.2)
    unproven = simulate_on_holdout(context, ledger, context.candidate(context.raised(["n0"], top=False)))
    assert unproven.accepted
    assert unproven.certificate is None
    settled = settle(context, ledger, unproven, (context.tolerance,))
    assert settled.margin_units
    assert settled.certificate is not None
    assert settled.certificate.margin_ns > 0


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.4, 50.0])
def test_what_can_be_afforded_is_raised_worst_first_and_within_the_share(share: float) -> None:
    context, _ = _open(_same(0.0), _same(0.0))
    prover = context.prover
    assert prover is not None
    first, *rest = context.space.units
    base = {first: WIDE}
    more = affordable(prover, base, [first, *rest], share, MarginPolicy())
    assert first not in more
    assert prover.latency_ns({**base, **more}) <= prover.latency_ns(base) * (1 + share) * (1 + 1e-9)
    if share == 0.0:
        assert more == {}
    if share == 50.0:
        assert set(more) == set(rest)
        few = affordable(prover, base, [first, *rest], share, MarginPolicy(units=2))
        assert list(few) == rest[:2]


def test_without_a_share_not_even_what_costs_nothing_is_raised() -> None:
    """Between two units that are raised the border goes, and the unit is free."""
    context, _ = _open(_same(0.0), _same(0.0))
    prover = context.prover
    assert prover is not None
    units = list(context.space.units)
    free = [
        unit for unit in units if prover.latency_ns(dict.fromkeys(units, WIDE)) <= prover.latency_ns(_but(units, unit))
    ]
    assert free
    for unit in free:
        assert list(affordable(prover, _but(units, unit), [unit], 1e-9, MarginPolicy())) == [unit]
        assert affordable(prover, _but(units, unit), [unit], 0.0, MarginPolicy()) == {}


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf")])
def test_a_margin_is_a_share(margin: float) -> None:
    with pytest.raises(CostError, match="no share"):
        CostOptions(margin=margin)


def test_a_proof_makes_no_fewer_than_no_tests() -> None:
    with pytest.raises(CostError, match="a proof cannot make -1 tests"):
        CostOptions(most_tests=-1)
    assert CostOptions(most_tests=0).most_tests == 0


def _strict() -> TaskMetric:
    """Return the example's metric, with boxes that must fit so well that 8 bits move some of them out."""
    spec = importlib.util.spec_from_file_location("strict_metric", FOLDER / "metric.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["MIN_IOU"] = 0.85
    return callable_metric(module.score)


@pytest.fixture(scope="module")
def digits() -> TuneRequest:
    """Return the digit detector with 120 samples, too few to show a drop of 3 %."""
    graph = dovetail.normalize(dovetail.load_model(FOLDER / "digits.onnx"))
    with np.load(FOLDER / "calib.npz", allow_pickle=False) as file:
        calibration = [image[None].astype(np.float32) for image in file["images"]]
    samples = open_samples(FOLDER / "eval.npz", specs_of(graph)).subset(FEW)
    return TuneRequest(
        graph=graph,
        calibration=dovetail.calibrate(graph, open_samples(calibration, specs_of(graph))),
        samples=samples,
        splits=split_samples(samples),
        metric=_strict(),
        goal=parse_goal("3%"),
        low=LOW,
        ladder=(WIDE,),
        costs=CostOptions(margin=0.1),
    )


@pytest.fixture(scope="module")
def plain(digits: TuneRequest) -> TuneResult:
    """Return the cheapest plan that the samples let pass."""
    return tune(replace(digits, costs=CostOptions(margin=0.0)))


@pytest.fixture(scope="module")
def wide(digits: TuneRequest) -> TuneResult:
    """Return the plan with a margin."""
    return tune(digits)


def test_a_plan_that_few_samples_cannot_show_gets_a_margin(plain: TuneResult, wide: TuneResult) -> None:
    assert plain.accepted
    assert wide.accepted
    assert plain.margin is not None
    assert wide.margin is not None
    assert plain.margin.units == ()
    assert plain.margin.estimate > plain.margin.allowance
    assert wide.margin.units
    assert wide.margin.estimate_without == plain.margin.estimate
    assert wide.margin.samples == len(FEW)
    assert {item.unit for item in wide.culprits} == {item.unit for item in plain.culprits}
    assert not {item.unit for item in wide.margin.units} & {item.unit for item in wide.culprits}
    nodes = {node for item in wide.raised for node in item.nodes}
    assert nodes == {node for node, item in wide.plan.overrides.items() if item.placement == WIDE}


def test_with_a_large_margin_fewer_samples_that_nobody_has_seen_differ_from_float(
    digits: TuneRequest, plain: TuneResult
) -> None:
    # What a tenth of the latency buys depends on how prices fall; half of it buys nearly everything that makes noise.
    large = tune(replace(digits, costs=CostOptions(margin=0.5)))
    every = open_samples(FOLDER / "eval.npz", specs_of(digits.graph))
    samples = SampleSet(digits.graph, every.subset(UNSEEN))
    pipeline = Pipeline(EvaluationData(digits.graph, samples, digits.metric, "strict"), digits.calibration.ranges)
    golden = Plan(digits.graph.digest, parse_placement("cpu@fp32"))
    scores = [pipeline.evaluate(plan, range(samples.count)).per_sample for plan in (golden, plain.plan, large.plan)]
    assert np.sum(scores[2] != scores[0]) < np.sum(scores[1] != scores[0])


def test_what_wavers_is_asked_of_the_plan_that_is_proven(digits: TuneRequest, wide: TuneResult) -> None:
    again = tune(replace(digits, options=TuneOptions(confirm=1)))
    assert again.accepted
    assert again.plan.digest == wide.plan.digest
    assert again.evidence == wide.evidence
    assert again.one_minimal


def test_enough_samples_need_no_margin(digits: TuneRequest) -> None:
    every = open_samples(FOLDER / "eval.npz", specs_of(digits.graph))
    sure = tune(replace(digits, samples=every, splits=split_samples(every), goal=parse_goal("5%")))
    assert sure.accepted
    assert sure.margin is not None
    assert sure.margin.is_within
    assert sure.margin.units == ()


def test_a_score_of_the_whole_set_has_no_margin(digits: TuneRequest) -> None:
    def mean(outputs: Arrays, labels: Arrays) -> float:
        scores = digits.metric.per_sample(outputs, labels)
        assert scores is not None
        return float(scores.mean())

    pooled = tune(replace(digits, metric=callable_metric(mean), metric_identity="mean"))
    assert pooled.accepted
    assert pooled.margin is None


def _page(digits: TuneRequest, result: TuneResult) -> str:
    """Return the report in one line."""
    partitioned = dovetail.partition(dovetail.quantize(digits.graph, result.plan, digits.calibration.ranges))
    page = page_text(report_page(make_report(result, partitioned, "digits")))
    return " ".join(page.split())


def test_the_report_lists_the_units_of_the_margin_apart(
    digits: TuneRequest, plain: TuneResult, wide: TuneResult
) -> None:
    pages = [_page(digits, result) for result in (plain, wide)]
    assert wide.margin is not None
    count = len(wide.margin.units)
    along = f"{len(wide.companions)} go along as that is cheaper, " if wide.companions else ""
    assert f"{len(wide.culprits)} break, {along}{count} are a margin" in pages[1]
    assert "Units raised for the margin" in pages[1]
    assert "and the margin of" in pages[1]
    assert "without the units of the margin" in pages[1]
    assert "Units raised for the margin" not in pages[0]
    assert "without the units of the margin" not in pages[0]


def test_the_report_tells_the_bound_from_the_estimate(digits: TuneRequest, wide: TuneResult) -> None:
    page = _page(digits, wide)
    held = len(digits.splits.holdout)
    assert f"on new samples, with 95 % confidence, by the {held} of the hold-out: beyond the goal" in page
    assert "The 120 of both splits, of which some selected the plan, give the estimate" in page


def test_the_report_says_that_units_break_only_where_each_was_tested(digits: TuneRequest, wide: TuneResult) -> None:
    page = _page(digits, replace(wide, evidence=()))
    assert f"of {len(wide.culprits)} not each is known to break" in page
    assert "Raised units, not each of which is known to break" in page
    assert "Units that break at low precision" not in page
