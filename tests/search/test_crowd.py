"""Where many units have to be raised: few tests, a plan that passes, none cheaper by what is known of harm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.plan import Placement, Plan
from dovetail.search import Status
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.prior import UnitPrior
from dovetail.search.selection import _searched
from dovetail.search.strategy import Sweep, shortest_prefix, sweep
from dovetail.search.tolerance import Tolerance
from dovetail.testing.networks import Network

from .stages import FLOAT, WIDE, Setting, open_stages

MOST = 72
"""Tests that a search for many units may take: 8 to see that they are many, 10 for the budget, 4 for both ends, and the
rest for groups, of which each round of eight that goes on makes the set an eighth smaller."""


@dataclass(frozen=True)
class Planted:
    """A search through layers of unlike size, whose harm adds up and saturates; it was measured with an error."""

    context: SearchContext
    ledger: Ledger
    harm: dict[str, float]
    tolerance: Tolerance

    @classmethod
    def drawn(cls, seed: int, share: float, ladder: Placement, allowed: float = 0.01) -> Planted:
        """Return a task in which a share of the layers does nearly all the harm."""
        rng = np.random.default_rng([seed, 11])
        net = Network(seed)
        last = net.input("x", 1, 8, 12, 12)
        for _ in range(int(rng.integers(64, 100))):
            last = net.conv(last, int(rng.choice([4, 8, 16, 32])), int(rng.choice([1, 3])))
        graph = net.graph(last)
        units = [node.name for node in graph.nodes]
        size = np.exp(rng.normal(size=len(units))) * 0.03
        harm = dict(zip(units, np.where(rng.random(len(units)) < share, size, 1e-5 * size).tolist(), strict=True))

        def loss(plan: Plan, indices: object) -> float:
            low = sum(value for unit, value in harm.items() if plan.placement(unit) == plan.default)
            return float(1 - np.exp(-low))

        errors = np.exp(rng.normal(size=(2, len(units))))
        prior = [
            UnitPrior(unit, harm[unit] * float(error) ** 2, "planted")
            for unit, error in zip(units, errors[0], strict=True)
        ]
        prior.sort(key=lambda item: -item.score)
        context, ledger = open_stages(Setting(graph, loss, ladder=(ladder,), prior=prior))
        ledger.sensitivities = {
            unit: float(1 - np.exp(-harm[unit] * error)) for unit, error in zip(units, errors[1], strict=True)
        }
        return cls(context, ledger, harm, Tolerance(allowed))

    def latency_ns(self, units: object) -> float:
        assert self.context.prover is not None
        return self.context.prover.latency_ns({unit: self.context.space.rung(unit, False) for unit in units})  # type: ignore[attr-defined]


@pytest.mark.parametrize("ladder", [WIDE, FLOAT], ids=["i16", "cpu"])
@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_takes_few_tests_and_is_hardly_dearer_than_what_truly_harms_most(
    seed: int, share: float, ladder: Placement
) -> None:
    task = Planted.drawn(seed, share, ladder)
    candidate = _searched(task.context, task.ledger, task.tolerance, climbs=False)
    assert candidate is not None
    assert task.ledger.judge(candidate.raised, task.tolerance).passed
    if len(candidate.raised) >= task.context.policy.culprits.many:
        assert len(task.ledger.trials) <= MOST
    order = sorted(task.harm, key=lambda unit: -task.harm[unit])

    def test(some: frozenset[str]) -> Status:
        low = sum(value for unit, value in task.harm.items() if unit not in some)
        return Status.PASS if task.tolerance.met_by(1 - float(np.exp(-low))) else Status.FAIL

    length = shortest_prefix(order, test)
    assert length is not None
    assert task.latency_ns(candidate.raised) <= 1.03 * task.latency_ns(order[:length])
    assert task.latency_ns(candidate.raised) <= 1.001 * task.latency_ns(order)


@pytest.mark.parametrize("seed", range(3))
def test_few_units_that_do_all_the_harm_are_found_among_many(seed: int) -> None:
    task = Planted.drawn(seed, 0.05, WIDE, 0.05)
    candidate = _searched(task.context, task.ledger, task.tolerance, climbs=False)
    assert candidate is not None
    harmful = {unit for unit, value in task.harm.items() if value > 1e-4}
    assert task.ledger.judge(candidate.raised, task.tolerance).passed
    assert set(candidate.raised) - candidate.companions <= harmful


def test_what_is_not_tried_is_said() -> None:
    task = Planted.drawn(0, 1.0, WIDE)
    assert _searched(task.context, task.ledger, Tolerance(0.01), climbs=False) is not None
    (text,) = task.ledger.untried
    assert "save less than 1% of the latency" in text


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.data())
def test_a_sweep_ends_with_a_set_that_passes_and_tests_no_group_that_does_not_pay(
    count: int, data: st.DataObject
) -> None:
    units = [f"n{number}" for number in range(count)]
    needed = frozenset(data.draw(st.sets(st.sampled_from(units))))
    worthless = frozenset(data.draw(st.sets(st.sampled_from(units))))
    options = Sweep(groups=8, crowd=4, least=data.draw(st.integers(1, 40)))
    tested: list[frozenset[str]] = []

    def test(some: frozenset[str]) -> Status:
        tested.append(some)
        return Status.PASS if needed <= some else Status.FAIL

    def pays(kept: frozenset[str], rest: frozenset[str]) -> bool:
        return not kept - rest <= worthless

    orders = (tuple(units), tuple(data.draw(st.permutations(units))))
    kept = sweep(test, orders, options, pays)
    assert needed <= kept or kept == frozenset(units)
    assert kept == frozenset(units) or kept in tested
    if len(kept) >= options.least and not needed and not worthless:
        assert not kept
    assert len(tested) == len(set(tested)) or needed


def test_a_sweep_gives_up_an_order_in_which_no_group_can_go() -> None:
    units = [f"n{number}" for number in range(64)]
    tested: list[frozenset[str]] = []

    def test(some: frozenset[str]) -> Status:
        tested.append(some)
        return Status.FAIL

    assert sweep(test, (units, units[::-1]), Sweep(8, 4, 32), lambda kept, rest: True) == frozenset(units)
    assert len(tested) == 8
