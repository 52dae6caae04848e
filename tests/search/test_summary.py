"""The result: what the stages gave, as a person reads it."""

from __future__ import annotations

import pytest

from dovetail.search.acceptance import judge_selected
from dovetail.search.culprits import find_culprits
from dovetail.search.gate import check_gate
from dovetail.search.selection import Selection
from dovetail.search.summary import make_result
from dovetail.search.tolerance import Tolerance

from .stages import FLOAT, WIDE, Setting, open_stages
from .test_culprits import LOW, chain, needs


@pytest.mark.parametrize("priced", [False, True])
def test_the_result_says_what_was_raised_what_it_scores_and_what_it_costs(priced: bool) -> None:
    context, ledger = open_stages(Setting(chain(6), needs({"n1", "n3"}, WIDE, FLOAT), low=LOW, priced=priced))
    gate = check_gate(context, ledger)
    candidate = find_culprits(context, ledger, Tolerance(0.1), climbs=False)
    assert candidate is not None
    candidate = judge_selected(context, ledger, candidate)
    surer = judge_selected(context, ledger, context.candidate(context.raised(["n1", "n2", "n3"], top=False)))
    result = make_result(context, ledger, gate, Selection(candidate, surer), ("an event",), 3.5)
    assert result.accepted
    assert [item.unit for item in (*result.culprits, *result.companions)] == list(candidate.raised)
    assert (result.search.low, result.search.tuned) == pytest.approx((0.6, 1.0))
    assert result.search.low_samples == gate.checks[0].trial.samples
    assert (result.holdout.low, result.holdout.tuned) == pytest.approx((0.6, 1.0))
    assert result.events == ("an event",)
    assert result.cost.elapsed_s == 3.5
    assert result.surer is not None
    assert (result.surer.raised, result.surer.latency_ns is not None) == (3, priced)
    assert result.summary.startswith("likely met: loss 0, between 0 and 0.12, 0.1 allowed; about 6 more samples would")
    assert "; the cheapest sure plan that was tried raises 3 units" in result.summary
    assert ("and takes" in result.summary) is priced
    assert all((item.latency_ns is not None) is priced for item in result.evidence)
    assert len(result.evidence) == 2


def test_where_the_goal_is_missed_the_cheapest_plan_within_it_is_named() -> None:
    context, ledger = open_stages(Setting(chain(6), needs({"n1", "n3"}, WIDE, FLOAT), low=LOW))
    gate = check_gate(context, ledger)
    raised = (context.raised(units, top=False) for units in ([], ["n1", "n3"]))
    missed, within = (judge_selected(context, ledger, context.candidate(units)) for units in raised)
    result = make_result(context, ledger, gate, Selection(missed, within), (), 1.0)
    assert result.summary.startswith("missed: ")
    assert "; the cheapest plan within it raises 2 units and takes" in result.summary
    assert result.surer is not None
    assert result.surer.plan.digest == within.plan.digest
