"""The vendor's judge on its own: what it cannot score is refused, and what does not run there is not looked at."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.compare.task import Arrays, callable_metric
from dovetail.errors import DataError
from dovetail.ir import AnyArray
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.search import Journal, VendorCheck
from dovetail.search.evaluator import EvaluationData
from dovetail.search.samples import SampleSet
from dovetail.search.vendor import VendorFinding, VendorJudge
from dovetail.testing.planted import labelled_samples, planted_detector

LOW, CPU = parse_placement("vsi:v853@i16"), parse_placement("cpu@fp32")
GRAPH = planted_detector()
SAMPLES = labelled_samples(GRAPH, 6)


class _Metric:
    """Count the samples that are scored, and fail from some call on."""

    def __init__(self, fails_at: int) -> None:
        self.scored: list[int] = []
        self._fails_at = fails_at

    def __call__(self, outputs: Arrays, labels: Arrays) -> AnyArray:
        self.scored.append(len(labels["truth"]))
        if len(self.scored) == self._fails_at:
            raise DataError(f"call {self._fails_at} went wrong.")
        return np.ones(len(labels["truth"]))


def _judge(metric: _Metric, plan: Plan) -> VendorFinding:
    ranges = calibrate(GRAPH, SAMPLES).ranges
    data = EvaluationData(GRAPH, SampleSet(GRAPH, SAMPLES), callable_metric(metric, "ones"), "ones")
    judge = VendorJudge(data, ranges, VendorCheck("npusim", samples=2), Journal(None, "c"))
    return judge.judge(plan, (1, 3, 5), 0.0)


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_plan_whose_outputs_cannot_be_scored_on_either_side_is_refused(fails_at: int) -> None:
    metric = _Metric(fails_at)
    finding = _judge(metric, Plan(GRAPH.digest, LOW))
    assert finding == VendorFinding(False, f"npusim cannot test it: call {fails_at} went wrong.")


def test_no_more_samples_are_asked_for_than_the_check_says() -> None:
    metric = _Metric(0)
    finding = _judge(metric, Plan(GRAPH.digest, LOW))
    assert finding == VendorFinding(True, "npusim on 2 samples: 100.00% of elements equal, loss 0 beside ours")
    assert metric.scored == [2, 2]


def test_a_plan_that_has_nothing_there_is_accepted_unseen() -> None:
    metric = _Metric(1)
    assert _judge(metric, Plan(GRAPH.digest, CPU)) == VendorFinding(True, "nothing runs on npusim")
    assert metric.scored == []
