"""The margin: units that the samples do not ask for, where few samples cannot show the loss."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.compare.task import Arrays, TaskMetric, callable_metric
from dovetail.data import SplitOptions, open_samples, specs_of, split_samples
from dovetail.errors import CostError
from dovetail.plan import Limits, Plan, Recipe, parse_placement
from dovetail.report import make_report, page_text, report_page
from dovetail.search import CostOptions, TuneOptions, TuneRequest, TuneResult, parse_goal, tune
from dovetail.search.evaluator import EvaluationData
from dovetail.search.margin import affordable
from dovetail.search.pipeline import Pipeline
from dovetail.search.proof import make_prover
from dovetail.search.samples import SampleSet
from dovetail.search.space import make_space

LOW, WIDE = parse_placement("vsi:v853@i8pc"), parse_placement("vsi:v853@i16")
FOLDER = Path(__file__).parents[2] / "examples" / "digits"
FEW = range(120)
UNSEEN = range(120, 800)


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
def asked() -> TuneRequest:
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
def plain(asked: TuneRequest) -> TuneResult:
    """Return the cheapest plan that the samples let pass."""
    return tune(replace(asked, costs=CostOptions(margin=0.0)))


@pytest.fixture(scope="module")
def wide(asked: TuneRequest) -> TuneResult:
    """Return the plan with a margin."""
    return tune(asked)


def test_a_plan_that_few_samples_cannot_show_gets_a_margin(plain: TuneResult, wide: TuneResult) -> None:
    assert plain.accepted
    assert wide.accepted
    assert plain.margin is not None
    assert wide.margin is not None
    assert plain.margin.units == ()
    assert plain.margin.bound > plain.margin.allowance
    assert wide.margin.units
    assert wide.margin.bound_without == plain.margin.bound
    assert wide.margin.samples == len(FEW)
    assert {item.unit for item in wide.culprits} == {item.unit for item in plain.culprits}
    assert not {item.unit for item in wide.margin.units} & {item.unit for item in wide.culprits}
    nodes = {node for item in wide.raised for node in item.nodes}
    assert nodes == {node for node, item in wide.plan.overrides.items() if item.placement == WIDE}


def test_the_margin_costs_no_more_than_it_may_and_the_proof_is_of_the_plan_without_it(
    plain: TuneResult, wide: TuneResult
) -> None:
    assert plain.certificate is not None
    assert wide.certificate is not None
    assert wide.margin is not None
    before_ns, after_ns = plain.certificate.cost.latency_ns, wide.certificate.cost.latency_ns
    assert after_ns <= before_ns * 1.1 * (1 + 1e-9)
    assert wide.certificate.margin_ns == pytest.approx(after_ns - before_ns)
    assert wide.margin.latency_ns == wide.certificate.margin_ns
    assert wide.certificate.lower_bound_ns == plain.certificate.lower_bound_ns
    assert wide.certificate.gap == pytest.approx(plain.certificate.gap)
    assert [(item.unit, item.trial.raised) for item in wide.evidence] == [
        (item.unit, item.trial.raised) for item in plain.evidence
    ]


def test_with_a_margin_fewer_samples_that_nobody_has_seen_differ_from_float(
    asked: TuneRequest, plain: TuneResult, wide: TuneResult
) -> None:
    every = open_samples(FOLDER / "eval.npz", specs_of(asked.graph))
    samples = SampleSet(asked.graph, every.subset(UNSEEN))
    pipeline = Pipeline(EvaluationData(asked.graph, samples, asked.metric, "strict"), asked.calibration.ranges)
    golden = Plan(asked.graph.digest, parse_placement("cpu@fp32"))
    found = [pipeline.evaluate(plan, range(samples.count)).per_sample for plan in (golden, plain.plan, wide.plan)]
    assert np.sum(found[2] != found[0]) < np.sum(found[1] != found[0])


def test_what_wavers_is_asked_of_the_plan_that_is_proven(asked: TuneRequest, wide: TuneResult) -> None:
    again = tune(replace(asked, options=TuneOptions(confirm=1)))
    assert again.accepted
    assert again.plan.digest == wide.plan.digest
    assert again.evidence == wide.evidence
    assert again.one_minimal


def test_enough_samples_need_no_margin(asked: TuneRequest) -> None:
    every = open_samples(FOLDER / "eval.npz", specs_of(asked.graph))
    sure = tune(replace(asked, samples=every, goal=parse_goal("5%")))
    assert sure.accepted
    assert sure.margin is not None
    assert sure.margin.bound <= sure.margin.allowance
    assert sure.margin.units == ()


def test_limits_hold_for_the_margin_too(asked: TuneRequest, plain: TuneResult) -> None:
    assert plain.certificate is not None
    most_ns = plain.certificate.cost.latency_ns * 1.01
    found = tune(replace(asked, wishes=Recipe(LOW, (WIDE,), limits=Limits(latency_ns=most_ns))))
    assert found.accepted
    assert found.certificate is not None
    assert found.certificate.cost.latency_ns <= most_ns


def test_what_can_be_afforded_is_raised_worst_first_and_within_the_share(asked: TuneRequest) -> None:
    space = make_space(asked.graph, LOW, (WIDE,))
    prover = make_prover(space, Limits(), CostOptions(), tuple(space.units))
    first, *rest = space.units
    base = {first: WIDE}
    assert affordable(prover, base, [first, *rest], 0.0) == {}
    for share in (0.02, 0.1, 0.4):
        more = affordable(prover, base, [first, *rest], share)
        assert first not in more
        assert prover.latency_ns({**base, **more}) <= prover.latency_ns(base) * (1 + share) * (1 + 1e-9)
    assert set(affordable(prover, base, [first, *rest], 50.0)) == set(rest)


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf")])
def test_a_margin_is_a_share(margin: float) -> None:
    with pytest.raises(CostError, match="no share"):
        CostOptions(margin=margin)


def test_a_proof_makes_no_fewer_than_no_tests() -> None:
    with pytest.raises(CostError, match="a proof cannot make -1 tests"):
        CostOptions(most_tests=-1)
    assert CostOptions(most_tests=0).most_tests == 0


def test_a_score_of_the_whole_set_has_no_margin(asked: TuneRequest) -> None:
    def mean(outputs: Arrays, labels: Arrays) -> float:
        scores = asked.metric.per_sample(outputs, labels)
        assert scores is not None
        return float(scores.mean())

    found = tune(replace(asked, metric=callable_metric(mean), metric_identity="mean"))
    assert found.accepted
    assert found.margin is None


def _page(asked: TuneRequest, result: TuneResult) -> str:
    """Return the report in one line."""
    partitioned = dovetail.partition(dovetail.quantize(asked.graph, result.plan, asked.calibration.ranges))
    page = page_text(report_page(make_report(result, partitioned, "digits")))
    return " ".join(page.split())


def test_a_margin_on_what_was_raised_on_suspicion_has_its_price(asked: TuneRequest) -> None:
    found = tune(replace(asked, splits=split_samples(asked.samples, SplitOptions(seed=4))))
    assert found.accepted
    assert found.evidence == ()
    assert found.margin is not None
    assert found.margin.units
    assert found.certificate is not None
    assert found.certificate.margin_ns == found.margin.latency_ns > 0
    page = _page(asked, found)
    assert f"of {len(found.culprits)} not each is known to break" in page
    assert "Raised units, not each of which is known to break" in page
    assert "Units that break at low precision" not in page


def test_the_report_lists_the_units_of_the_margin_apart(
    asked: TuneRequest, plain: TuneResult, wide: TuneResult
) -> None:
    pages = [_page(asked, result) for result in (plain, wide)]
    assert wide.margin is not None
    count = len(wide.margin.units)
    assert f"{len(wide.culprits)} break, {count} are a margin" in pages[1]
    assert "Units raised for the margin" in pages[1]
    assert "gap 0.1% and the margin of" in pages[1]
    assert "without the units of the margin" in pages[1]
    assert "Units raised for the margin" not in pages[0]
    assert "without the units of the margin" not in pages[0]
    assert all("over the 120 samples of both splits: beyond the goal" in page for page in pages)
