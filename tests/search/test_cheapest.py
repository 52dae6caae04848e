"""From a passing plan to the cheapest: what goes along, and what that costs in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from dovetail.backend.costs import Figure, Quality
from dovetail.ir import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.plan import Plan
from dovetail.search import CostOptions
from dovetail.search.candidate import Candidate
from dovetail.search.cheapest import cheapest
from dovetail.search.culprits import find_culprits
from dovetail.search.tolerance import Tolerance

from .stages import FLOAT, WIDE, Loss, Setting, open_stages
from .test_culprits import LOW, chain, needs

_MUCH, _LITTLE = 500_000.0, 5_000.0
CULPRITS = {"n1", "n3"}


@dataclass(frozen=True)
class _Prices:
    """A millisecond for every unit, at 16 bits less what it saves there."""

    saved_ns: Mapping[str, float]

    def latency(self, graph: Graph, nodes: Sequence[Node], target: str, precision: Precision) -> Figure | None:
        if target != LOW.target:
            return Figure(1e9, Quality.MEASURED, "planted")
        wide = precision is WIDE.precision
        return Figure(1e6 - (self.saved_ns.get(nodes[0].name, -1e5) if wide else 0.0), Quality.MEASURED, "planted")


class _Counted:
    """A loss that lists the plans that it was asked about, by what they raise."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self.asked: list[frozenset[str]] = []

    def __call__(self, plan: Plan, indices: Sequence[int]) -> float:
        raised = frozenset(name for name in (f"n{index}" for index in range(6)) if plan.placement(name) == WIDE)
        if raised not in self.asked:
            self.asked.append(raised)
        lost = self._loss(plan, indices)
        assert isinstance(lost, float)
        return lost


def _cheapest(loss: Loss, **saved_ns: float) -> tuple[Candidate, list[frozenset[str]]]:
    """Return the cheapest plan of a chain of six, and what was evaluated to find it from the culprits."""
    counted = _Counted(loss)
    context, ledger = open_stages(Setting(chain(6), counted, low=LOW, costs=CostOptions(sources=(_Prices(saved_ns),))))
    found = find_culprits(context, ledger, Tolerance(0.1), climbs=True)
    assert found is not None
    assert set(found.raised) == CULPRITS
    assert context.prover is not None
    before = list(counted.asked)
    return cheapest(context, ledger, found, Tolerance(0.1), context.prover), counted.asked[len(before) :]


def test_units_that_save_next_to_nothing_are_left_out_together_and_the_plan_is_known_then() -> None:
    candidate, asked = _cheapest(needs(CULPRITS, WIDE, FLOAT), n0=_LITTLE, n2=_LITTLE, n5=_LITTLE)
    assert set(candidate.raised) == CULPRITS
    assert candidate.companions == frozenset()
    # What is cheapest by a hair was tested; that the culprits alone pass had been before.
    assert [raised for raised in asked if raised > CULPRITS] == [CULPRITS | {"n0", "n2", "n5"}]


def test_what_saves_much_goes_along_and_its_removal_is_evidence_that_it_breaks_nothing() -> None:
    candidate, asked = _cheapest(needs(CULPRITS, WIDE, FLOAT), n0=_LITTLE, n2=_MUCH, n5=_LITTLE)
    assert set(candidate.raised) == CULPRITS | {"n2"}
    assert candidate.companions == {"n2"}
    passed = {item.unit: item.trial.passed for item in candidate.evidence}
    assert passed == {"n1": False, "n2": True, "n3": False}
    assert [raised for raised in asked if raised > CULPRITS] == [CULPRITS | {"n0", "n2", "n5"}, CULPRITS | {"n2"}]


def test_neighbours_that_only_spare_conversions_between_each_other_are_left_out_together() -> None:
    culprits = {"n1", "n4"}
    # Two conversions of 2.7 us each are spared, for 4 us more: next to nothing, but each alone would add them again.
    prices = _Prices({"n1": 0.0, "n2": -2e3, "n3": -2e3, "n4": 0.0})
    costs = CostOptions(sources=(prices,), worthwhile=2.4e-6 / 6.4e-3)
    context, ledger = open_stages(Setting(chain(6), needs(culprits, WIDE, FLOAT), low=LOW, costs=costs))
    found = find_culprits(context, ledger, Tolerance(0.1), climbs=True)
    assert found is not None
    assert context.prover is not None
    around = context.prover.latency_ns(dict.fromkeys(("n1", "n2", "n3", "n4"), WIDE))
    parts = [dict.fromkeys(names, WIDE) for names in (("n1", "n4"), ("n1", "n2", "n4"))]
    apart, one = (context.prover.latency_ns(raised) for raised in parts)
    assert around < apart < around + 2.4e3 < one
    candidate = cheapest(context, ledger, found, Tolerance(0.1), context.prover)
    assert set(candidate.raised) == culprits


@pytest.mark.parametrize("spared", ["n0", "n5"])
def test_where_all_together_are_needed_after_all_they_are_left_out_one_by_one(spared: str) -> None:
    plain = needs(CULPRITS, WIDE, FLOAT)

    def loss(plan: Plan, indices: Sequence[int]) -> float:
        breaks = plan.placement("n2") == WIDE and plan.placement(spared) != WIDE
        lost = plain(plan, indices)
        assert isinstance(lost, float)
        return lost + 0.5 * breaks

    candidate, _ = _cheapest(loss, n0=_LITTLE, n2=_MUCH, n5=_LITTLE)
    assert set(candidate.raised) == {*CULPRITS, "n2", spared}
