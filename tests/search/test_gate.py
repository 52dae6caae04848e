"""What the first evaluations mean, and that the verdict says what was compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dovetail.errors import SearchError
from dovetail.plan import Plan, parse_placement
from dovetail.search import GateVerdict, Goal, SearchPolicy
from dovetail.search.acceptance import judge_selected
from dovetail.search.candidate import refused
from dovetail.search.gate import check_gate, revise_gate
from dovetail.search.ledger import Ledger
from dovetail.search.result import Gate

from .stages import WIDE, Loss, Setting, open_stages
from .test_culprits import chain

LOW = parse_placement("vsi:v853@u8")
ON_CPU = parse_placement("cpu@u8")


def _gate(loss: Loss, on_cpu: float = 1.0) -> tuple[Gate, Ledger]:
    """Return the gate where fast and exact simulation lose the same, and the CPU loses `on_cpu` in exact simulation."""

    def exact(plan: Plan, indices: Sequence[int]) -> float:
        return on_cpu if plan.default == ON_CPU else float(loss(plan, indices))

    context, ledger = open_stages(Setting(chain(3), loss, exact, low=LOW, priced=False, searched=200))
    return check_gate(context, ledger), ledger


def _is_low(plan: Plan) -> bool:
    return plan.default == LOW and not plan.overrides


def _is_wide(plan: Plan) -> bool:
    return {item.placement for item in plan.overrides.values()} == {WIDE}


def test_low_precision_that_is_good_enough() -> None:
    gate, _ = _gate(lambda plan, indices: 0.05)
    assert (gate.verdict, gate.text) == (
        GateVerdict.NOTHING_TO_DO,
        "nothing to do: everything at vsi:v853@u8 meets the goal",
    )
    assert [item.name for item in gate.checks] == ["everything at vsi:v853@u8, fast simulation"]


def test_low_precision_that_fails_where_sixteen_bits_do_not() -> None:
    gate, ledger = _gate(lambda plan, indices: 0.5 if _is_low(plan) else 0.0)
    assert gate.verdict is GateVerdict.QUANTISATION_BREAKS
    assert gate.text == "bad quantisation: everything at vsi:v853@u8 fails, at vsi:v853@i16 it passes"
    assert not ledger.starts_at_top


def test_the_rung_that_was_tested_is_the_one_that_is_said_to_fail() -> None:
    gate, ledger = _gate(lambda plan, indices: 0.5 if _is_low(plan) or _is_wide(plan) else 0.0)
    assert (gate.verdict, gate.text) == (GateVerdict.FIRST_RUNG_FAILS, "everything at vsi:v853@i16 fails")
    assert ledger.starts_at_top
    # It fails on a preview and then on as many samples as it takes.
    assert [item.name for item in gate.checks if "i16" in item.name] == [
        "everything at vsi:v853@i16, exact",
        "everything at vsi:v853@i16, fast simulation",
    ]


def test_low_precision_that_fails_on_the_npu_only_is_a_fact_of_the_simulation() -> None:
    gate, _ = _gate(lambda plan, indices: 0.5 if _is_low(plan) else 0.0, on_cpu=0.0)
    assert gate.verdict is GateVerdict.NPU_DIFFERS
    assert gate.text == "in simulation: the CPU's u8 passes, the NPU's arithmetic does not"


def test_the_cpu_differs_from_nothing_where_the_npu_passes_the_same_samples() -> None:
    """Low precision loses on late samples only: on those that are compared it passes, as the CPU does."""

    def late(plan: Plan, indices: Sequence[int]) -> float:
        return 0.5 if _is_low(plan) and min(indices) >= 64 else 0.0

    gate, _ = _gate(late, on_cpu=0.0)
    assert gate.verdict is GateVerdict.QUANTISATION_BREAKS


def test_three_plans_are_compared_on_the_same_samples_in_exact_simulation() -> None:
    gate, _ = _gate(lambda plan, indices: 0.5 if _is_low(plan) else 0.0)
    compared = [item for item in gate.checks if item.name.endswith(", exact")]
    assert [item.name for item in compared] == [
        f"everything at {place}, exact" for place in ("vsi:v853@u8", "vsi:v853@i16", "cpu@u8")
    ]
    assert {item.trial.samples for item in compared} == {SearchPolicy().race.first_block}
    assert {item.trial.float_score for item in compared} == {1.0}
    # What fast simulation says of the same plan is a row of its own.
    assert [item.trial.samples for item in gate.checks if item not in compared] == [16]


def test_a_search_that_raises_more_than_the_gate_saw_says_why() -> None:
    context, ledger = open_stages(Setting(chain(3), lambda plan, indices: 0.0, low=LOW, priced=False))
    gate = check_gate(context, ledger)
    nothing, raised = (
        judge_selected(context, ledger, context.candidate(context.raised(units, top=False))) for units in ([], ["n0"])
    )
    assert revise_gate(gate, context, ledger, nothing) == gate
    assert revise_gate(gate, context, ledger, replace(raised, companions=frozenset({"n0"}))) == gate
    revised = revise_gate(gate, context, ledger, raised)
    assert revised.verdict is GateVerdict.QUANTISATION_BREAKS
    assert revised.text.endswith("passes on the search split, not with the hold-out")
    missed = replace(nothing, acceptance=None if nothing.acceptance is None else refused(nothing.acceptance, "others"))
    assert revise_gate(gate, context, ledger, missed).text == revised.text
    ledger.starts_at_top = True
    climbed = revise_gate(gate, context, ledger, raised)
    assert climbed.verdict is GateVerdict.FIRST_RUNG_FAILS
    assert climbed.text == "everything at vsi:v853@i16 passes on the first samples, not on all"


def test_what_fails_on_the_search_split_and_passes_on_both_breaks_nothing() -> None:
    gate, ledger = _gate(lambda plan, indices: 0.5 if _is_low(plan) else 0.0)
    context, other = open_stages(Setting(chain(3), lambda plan, indices: 0.0, low=LOW, priced=False))
    revised = revise_gate(gate, context, ledger, judge_selected(context, other, context.candidate({})))
    assert (revised.verdict, revised.checks) == (GateVerdict.NOTHING_TO_DO, gate.checks)


def test_a_float_model_below_the_score_that_is_wanted() -> None:
    context, ledger = open_stages(Setting(chain(3), lambda plan, indices: 0.0, goal=Goal(0.1, min_score=1.5)))
    with pytest.raises(SearchError, match=r"target unreachable: the float model scores 1, below 1\.5"):
        check_gate(context, ledger)
