"""The culprits: what has to be raised is found, and nothing else."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail.ir import Graph
from dovetail.plan import Plan, parse_placement
from dovetail.search.candidate import Candidate
from dovetail.search.context import SearchContext
from dovetail.search.culprits import find_culprits
from dovetail.search.ledger import Ledger
from dovetail.search.tolerance import Tolerance
from dovetail.testing.networks import Network

from .stages import FLOAT, WIDE, Loss, Setting, open_stages

LOW = parse_placement("vsi:v853@u8")


def chain(units: int) -> Graph:
    """Return a chain of one operator."""
    net = Network()
    last = net.input("x", 1, 2, 4, 4)
    for _ in range(units):
        last = net.op("Tanh", last)
    return net.graph(last)


def needs(culprits: set[str], *places: object) -> Loss:
    """Return a loss of 0.2 for every culprit that is not at one of the places."""

    def loss(plan: Plan, indices: Sequence[int]) -> float:
        return 0.2 * sum(plan.placement(name) not in places for name in culprits)

    return loss


def _open(loss: Loss, units: int, max_plans: int = 500) -> tuple[SearchContext, Ledger]:
    return open_stages(Setting(chain(units), loss, low=LOW, priced=False, max_plans=max_plans))


def _find(loss: Loss, units: int, allowance: float = 0.1, climbs: bool = True) -> Candidate | None:
    return find_culprits(*_open(loss, units), Tolerance(allowance), climbs)


@pytest.mark.parametrize("culprits", [{"n1"}, {"n0", "n7"}, {"n3", "n4", "n11"}, {f"n{index}" for index in range(12)}])
def test_culprits_are_raised_and_nothing_else(culprits: set[str]) -> None:
    candidate = _find(needs(culprits, WIDE, FLOAT), 12)
    assert candidate is not None
    assert set(candidate.raised) == culprits
    assert set(candidate.placements.values()) == {WIDE}
    assert {item.unit for item in candidate.evidence} == culprits
    assert all(item.trial.status.value == "fail" for item in candidate.evidence)
    assert all(item.reason.startswith("breaks at vsi:v853@u8: ") for item in candidate.raised.values())


def test_only_what_needs_the_cpu_goes_there() -> None:
    wide, floats = needs({"n2", "n5"}, WIDE, FLOAT), needs({"n7"}, FLOAT)
    candidate = _find(lambda plan, indices: wide(plan, indices) + floats(plan, indices), 12)
    assert candidate is not None
    assert candidate.placements == {"n2": WIDE, "n5": WIDE, "n7": FLOAT}


def test_the_cpu_is_not_climbed_to_for_what_is_kept_back() -> None:
    """Sixteen bits everywhere lose 0.07: enough for a tolerance of 0.1, not for one of 0.05."""
    low = needs({"n1"}, WIDE, FLOAT)

    def loss(plan: Plan, indices: Sequence[int]) -> float:
        wide = any(item.placement != FLOAT for item in plan.overrides.values())
        return float(low(plan, indices)) + (0.07 if wide else 0.0)

    context, ledger = _open(loss, 4)
    assert find_culprits(context, ledger, Tolerance(0.05), climbs=False) is None
    candidate = find_culprits(context, ledger, Tolerance(0.1), climbs=False)
    assert candidate is not None
    assert set(candidate.placements.values()) == {WIDE}
    assert not ledger.starts_at_top
    high = find_culprits(context, ledger, Tolerance(0.05), climbs=True)
    assert high is not None
    assert set(high.placements.values()) == {FLOAT}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.02, 0.05, 0.5]))
@example(338, 0.02)
@example(32, 0.05)
@example(41, 0.05)
def test_whatever_the_oracle_says_the_plan_that_is_proposed_has_passed(salt: int, share: float) -> None:
    def loss(plan: Plan, indices: Sequence[int]) -> float:
        places = [str(plan.placement(f"n{index}")) for index in range(20)]
        if set(places) == {"cpu@fp32"}:
            return 0.0
        return 0.0 if zlib.crc32(f"{salt}{places}".encode()) % 1000 < 1000 * share else 0.5

    candidate = _find(loss, 20)
    assert candidate is not None
    assert loss(candidate.plan, ()) == 0.0


def test_a_spent_budget_leaves_a_passing_set_of_which_nothing_is_said_to_be_tested() -> None:
    candidate = find_culprits(*_open(needs({"n0", "n7"}, WIDE, FLOAT), 12, max_plans=1), Tolerance(0.1), climbs=True)
    assert candidate is not None
    assert {"n0", "n7"} <= set(candidate.raised)
    assert candidate.evidence == ()
    assert all(item.reason.startswith("raised with others, not tested alone: ") for item in candidate.raised.values())


def test_plans_for_proofs_do_not_count_against_the_budget() -> None:
    context, ledger = _open(needs({"n0"}, WIDE, FLOAT), 4, max_plans=2)
    for unit in ("n1", "n2", "n3"):
        ledger.judge(context.raised([unit], top=False), Tolerance(0.1), spare=True)
    assert not ledger.is_exhausted
    ledger.judge({}, Tolerance(0.1))
    ledger.judge(context.raised(["n1"], top=False), Tolerance(0.1))
    assert not ledger.is_exhausted
    ledger.judge(context.raised(["n0"], top=False), Tolerance(0.1))
    assert ledger.is_exhausted
    assert len(ledger.trials) == 5


def test_a_stricter_tolerance_is_met_by_the_smallest_plan_that_was_tried_already() -> None:
    units = [f"n{index}" for index in range(6)]
    context, ledger = _open(lambda plan, indices: 0.1 / (1 + len(plan.overrides)), 6)
    for count in (0, 1, 2, 4):
        ledger.judge(context.raised(units[:count], top=False), Tolerance(0.2))
    before = ledger.trials
    raised = ledger.fewest_raised(Tolerance(0.04))
    assert raised is not None
    assert list(raised) == units[:2]
    assert [item.plan_digest for item in ledger.trials] == [item.plan_digest for item in before]
    assert ledger.fewest_raised(Tolerance(0.001)) is None


def test_a_reason_does_not_say_of_what_was_raised_untested_that_it_breaks() -> None:
    context, _ = open_stages(Setting(chain(3), needs({"n1"}, WIDE), low=LOW))
    assert context.override("n1", WIDE).reason.startswith("breaks at")
    assert context.override("n1", WIDE, tested=False).reason.startswith("raised with others, not tested alone")
