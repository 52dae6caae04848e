"""State and control flow have one home: who would cut through them is told so."""

from __future__ import annotations

import pytest

from dovetail.backend.registry import known_targets
from dovetail.errors import PlanError
from dovetail.ir.precision import Precision
from dovetail.plan import Placement, Recipe, Rule, make_plan
from dovetail.testing.topologies import branches, state

CPU, OTHER = Placement("cpu", Precision.FP32), Placement("reference", Precision.FP32)
TARGETS = {target.name: target for target in known_targets()}


@pytest.mark.parametrize("rule", [Rule(OTHER, "read_value"), Rule(OTHER, "assi*"), Rule(OTHER, op="Mul")])
def test_a_cut_through_the_state_of_a_loop(rule: Rule) -> None:
    with pytest.raises(PlanError, match=r"rule 1 would cut .* out of node 'Bloop' \(Loop\).*state") as caught:
        make_plan(state().graph, Recipe(CPU, rules=(rule,)), TARGETS)
    assert "Place 'Bloop' as a whole" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cut_into_a_branch() -> None:
    with pytest.raises(PlanError, match=r"out of node 'Aif' \(If\)"):
        make_plan(branches().graph, Recipe(CPU, rules=(Rule(OTHER, op="Neg"),)), TARGETS)


def test_the_whole_goes_where_it_is_placed() -> None:
    plan = make_plan(state().graph, Recipe(CPU, rules=(Rule(OTHER, "Bloop"),)), TARGETS)
    assert plan.placement("Bloop") == OTHER
