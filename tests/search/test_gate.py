"""What the first evaluations mean."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail.data import Sample
from dovetail.errors import SearchError
from dovetail.ir import AnyArray
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import calibrate
from dovetail.search import GateVerdict, Goal, Journal, Trial
from dovetail.search.hunt import Hunt, HuntOptions
from dovetail.search.journal import Scores
from dovetail.search.oracle import Bar, Oracle, Split
from dovetail.search.prior import suspect
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.space import FLOAT, Space, make_space
from dovetail.testing.networks import Network
from dovetail.testing.planted import HeldSamples

LOW = parse_placement("vsi:v853@u8")
WIDE = parse_placement("vsi:v853@i16")
COUNT = 30


class Planted:
    """Score a plan by a function of it."""

    identity = "planted"

    def __init__(self, loss: Callable[[Plan], float]) -> None:
        self._loss = loss

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        scores = np.full(len(indices), 1.0 - self._loss(plan))
        return Scores(float(scores.mean()), scores)

    def outputs(self, plan: Plan, indices: Sequence[int]) -> dict[str, AnyArray]:
        return {"y": np.full((len(indices), 2), 1.0 + self._loss(plan))}

    def golden(self, indices: Sequence[int]) -> dict[str, AnyArray]:
        return {"y": np.ones((len(indices), 2))}


class Silent:
    def stage(self, title: str) -> None:
        pass

    def trial(self, trial: Trial) -> None:
        pass


def _hunt(loss: Callable[[Plan], float], units: int = 3) -> tuple[Hunt, Space]:
    net = Network()
    made = net.input("x", 1, 2, 4, 4)
    for _ in range(units):
        made = net.op("Tanh", made)
    graph = net.graph(made)
    space = make_space(graph, LOW, (WIDE,))
    journal = Journal(None, "c")
    recorded = RecordedEvaluator(Planted(loss), journal)
    oracle = Oracle(recorded, journal, Split("search", tuple(range(COUNT))), space.float_plan)
    return Hunt(
        suspect(space, calibrate(graph, HeldSamples([Sample("s", {"x": np.ones((1, 2, 4, 4), np.float32)})]))),
        space,
        recorded,
        oracle,
        HuntOptions(Silent(), 500),
    ), space


def _gate(loss: Callable[[Plan], float], on_cpu: float = 1.0) -> GateVerdict:
    hunt, _ = _hunt(loss)
    exact = RecordedEvaluator(Planted(lambda plan: on_cpu), Journal(None, "c"), "exact")
    verdict, checks = hunt.gate(Goal(0.1), exact)
    assert checks[0].name == "everything at vsi:v853@u8"
    return verdict


def _is_low(plan: Plan) -> bool:
    return plan.default == LOW and not plan.overrides


def _everything(plan: Plan) -> set[str]:
    return {str(item.placement) for item in plan.overrides.values()}


def test_low_precision_that_is_good_enough() -> None:
    assert _gate(lambda plan: 0.05) is GateVerdict.NOTHING_TO_DO


def test_low_precision_that_fails_where_sixteen_bits_do_not() -> None:
    assert _gate(lambda plan: 0.5 if _is_low(plan) else 0.0) is GateVerdict.QUANTISATION_BREAKS


def test_sixteen_bits_that_fail_too() -> None:
    verdict = _gate(lambda plan: 0.5 if _is_low(plan) or _everything(plan) == {str(WIDE)} else 0.0)
    assert verdict is GateVerdict.SIXTEEN_BITS_FAIL


def test_low_precision_that_fails_on_the_npu_only() -> None:
    assert _gate(lambda plan: 0.5 if _is_low(plan) else 0.0, on_cpu=0.0) is GateVerdict.NPU_DIFFERS


def test_a_float_model_below_the_score_that_is_asked_for() -> None:
    hunt, _ = _hunt(lambda plan: 0.0)
    with pytest.raises(SearchError, match="target unreachable"):
        hunt.gate(Goal(0.1, min_score=1.5), RecordedEvaluator(Planted(lambda plan: 0.0), Journal(None, "c")))


def _needs(culprits: set[str], place: set[str]) -> Callable[[Plan], float]:
    def loss(plan: Plan) -> float:
        if plan.default == FLOAT:
            return 0.0
        return 0.2 * sum(str(plan.placement(name)) not in place for name in culprits)

    return loss


@pytest.mark.parametrize("culprits", [{"n1"}, {"n0", "n7"}, {"n3", "n4", "n11"}, {f"n{index}" for index in range(12)}])
def test_culprits_are_raised_and_nothing_else(culprits: set[str]) -> None:
    hunt, _ = _hunt(_needs(culprits, {str(WIDE), "cpu@fp32"}), 12)
    found = hunt.find(Bar(0.1))
    assert found is not None
    assert set(found.raised) == culprits
    assert {str(item.placement) for item in found.raised.values()} == {str(WIDE)}
    assert {item.unit for item in found.evidence} == culprits
    assert all(item.trial.status.value == "fail" for item in found.evidence)


def test_only_what_needs_the_cpu_goes_there() -> None:
    wide = _needs({"n2", "n5"}, {str(WIDE), "cpu@fp32"})
    floats = _needs({"n7"}, {"cpu@fp32"})
    hunt, _ = _hunt(lambda plan: wide(plan) + floats(plan), 12)
    found = hunt.find(Bar(0.1))
    assert found is not None
    places = {name: str(item.placement) for name, item in found.raised.items()}
    assert places == {"n2": str(WIDE), "n5": str(WIDE), "n7": "cpu@fp32"}


def test_the_cpu_is_not_climbed_to_for_what_is_kept_in_hand() -> None:
    """Sixteen bits everywhere lose 0.07: enough for a bar of 0.1, not for one of 0.05."""
    low = _needs({"n1"}, {str(WIDE), "cpu@fp32"})

    def loss(plan: Plan) -> float:
        return low(plan) + (0.07 if any(str(item.placement) != "cpu@fp32" for item in plan.overrides.values()) else 0.0)

    hunt, _ = _hunt(loss, 4)
    assert hunt.find(Bar(0.05), climbs=False) is None
    found = hunt.find(Bar(0.1), climbs=False)
    assert found is not None
    assert {str(item.placement) for item in found.raised.values()} == {str(WIDE)}
    assert not hunt.reaches_the_last_rung
    high = hunt.find(Bar(0.05))
    assert high is not None
    assert {str(item.placement) for item in high.raised.values()} == {"cpu@fp32"}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.02, 0.05, 0.5]))
@example(338, 0.02)
@example(32, 0.05)
@example(41, 0.05)
def test_whatever_the_oracle_says_the_plan_that_is_found_has_passed(salt: int, share: float) -> None:
    def loss(plan: Plan) -> float:
        places = [str(plan.placement(f"n{index}")) for index in range(20)]
        if plan.default == FLOAT or set(places) == {"cpu@fp32"}:
            return 0.0
        return 0.0 if zlib.crc32(f"{salt}{places}".encode()) % 1000 < 1000 * share else 0.5

    hunt, space = _hunt(loss, 20)
    found = hunt.find(Bar(0.1))
    assert found is not None
    assert loss(space.plan(found.raised)) == 0.0
