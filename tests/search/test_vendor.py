"""The vendor's judge on its own: what it cannot score is refused, and what does not run there is not looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dovetail.backend.failures import FailureMemory
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
    """Count the samples that are scored, and fail at some call; what the vendor gives is scored first."""

    def __init__(self, fails_at: int = 0, theirs: float = 1.0) -> None:
        self.scored: list[int] = []
        self._fails_at = fails_at
        self._theirs = theirs

    def __call__(self, outputs: Arrays, labels: Arrays) -> AnyArray:
        self.scored.append(len(labels["truth"]))
        if len(self.scored) == self._fails_at:
            raise DataError(f"call {self._fails_at} went wrong.")
        return np.full(len(labels["truth"]), self._theirs if len(self.scored) == 1 else 1.0)


def _judge(metric: _Metric, plan: Plan, allowance: float = 0.0, vendor: str = "npusim") -> VendorFinding:
    ranges = calibrate(GRAPH, SAMPLES).ranges
    data = EvaluationData(GRAPH, SampleSet(GRAPH, SAMPLES), callable_metric(metric, "ones"), "ones")
    judge = VendorJudge(data, ranges, VendorCheck(vendor, samples=2), Journal(None, "c"))
    return judge.judge(plan, (1, 3, 5), allowance)


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_plan_whose_outputs_cannot_be_scored_on_either_side_is_refused(fails_at: int) -> None:
    metric = _Metric(fails_at)
    finding = _judge(metric, Plan(GRAPH.digest, LOW))
    assert finding == VendorFinding(False, f"npusim cannot test it: call {fails_at} went wrong.")


def test_no_more_samples_are_asked_for_than_the_check_says() -> None:
    metric = _Metric()
    finding = _judge(metric, Plan(GRAPH.digest, LOW))
    assert finding == VendorFinding(True, "npusim on 2 samples: 100.00% of elements equal, loss 0 beside ours")
    assert metric.scored == [2, 2]


@pytest.mark.parametrize(("allowance", "accepted"), [(0.25, True), (0.24, False)])
def test_a_loss_beside_ours_may_be_what_the_goal_allows(allowance: float, accepted: bool) -> None:
    finding = _judge(_Metric(theirs=0.75), Plan(GRAPH.digest, LOW), allowance)
    assert finding.accepted is accepted
    assert finding.summary.startswith("npusim on 2 samples: 100.00% of elements equal, loss 0.25 beside ours")
    assert finding.summary.endswith(": suspect a kernel or the driver") is not accepted


def test_a_plan_that_has_nothing_there_is_accepted_unseen() -> None:
    metric = _Metric(1)
    assert _judge(metric, Plan(GRAPH.digest, CPU)) == VendorFinding(True, "nothing runs on npusim")
    assert metric.scored == []


def test_a_vendors_compiler_that_dies_names_the_node(
    install: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install("plantback")
    import plantback

    monkeypatch.setenv("DOVETAIL_FAILURES", str(tmp_path))
    worst = GRAPH.nodes[-1]
    plantback.plant(plantback.Flaws(fails=lambda graph: worst.name in {node.name for node in graph.nodes}))
    finding = _judge(_Metric(), Plan(GRAPH.digest, LOW), vendor="plantback")
    assert not finding.accepted
    wanted = f"plantback cannot test it: {worst.label}: vsi:v853 said yes, and Flawed 7 crashes on it: a planted flaw."
    assert finding.summary.startswith(wanted)
    (entry,) = FailureMemory(tmp_path).entries()
    assert entry.ops == (worst.op,)
    again = _judge(_Metric(), Plan(GRAPH.digest, LOW), vendor="plantback")
    assert "as was seen before" in again.summary
