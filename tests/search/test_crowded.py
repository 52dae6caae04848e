"""Where nearly every unit matters: few tests, one piece of the network, and never more than raising everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dovetail.ir import Graph
from dovetail.search import Status
from dovetail.search.candidate import Candidate
from dovetail.search.cheapest import cheapest
from dovetail.search.context import SearchContext
from dovetail.search.culprits import find_culprits
from dovetail.search.ledger import Ledger
from dovetail.search.policy import SearchPolicy
from dovetail.search.prior import UnitPrior
from dovetail.search.proof import Prover
from dovetail.search.selection import _searched
from dovetail.search.tolerance import Tolerance
from dovetail.testing.networks import Network

from .stages import FLOAT, LOW, Setting, open_stages, weighed

COUNT = 64
MANY = SearchPolicy().culprits.many
TIGHT = Tolerance(0.24)


def _chain() -> Graph:
    net = Network(1)
    last = net.input("x", 1, 8, 12, 12)
    for _ in range(COUNT):
        last = net.conv(last, 8)
    return net.graph(last)


@dataclass
class Crowd:
    """A search through a chain of equal layers, of which each loses about as much; measured harm is drawn."""

    context: SearchContext
    ledger: Ledger
    weights: dict[str, float]
    harm: list[str]
    """Units in the order of what is measured of them."""

    @classmethod
    def of(cls, weigh: Callable[[int], float]) -> Crowd:
        graph = _chain()
        units = [node.name for node in graph.nodes]
        weights = {unit: weigh(number) for number, unit in enumerate(units)}
        harm = [units[number] for number in np.random.default_rng(2).permutation(COUNT)]
        prior = [UnitPrior(unit, 1.0 / (1 + rank), "drawn") for rank, unit in enumerate(harm)]
        context, ledger = open_stages(
            Setting(graph, lambda plan, indices: weighed(weights)(plan, indices), ladder=(FLOAT,), prior=prior)
        )
        ledger.sensitivities = {item.unit: item.score for item in prior}
        return cls(context, ledger, weights, harm)

    @property
    def units(self) -> list[str]:
        return list(self.context.space.units)

    @property
    def prover(self) -> Prover:
        assert self.context.prover is not None
        return self.context.prover

    def raised(self, units: list[str]) -> Candidate:
        return self.context.candidate(self.context.raised(units, top=False))

    def ms(self, candidate: Candidate) -> float:
        return self.prover.latency_ns(candidate.placements) / 1e6

    def find(self, tolerance: Tolerance, priced: bool = True) -> Candidate:
        context = self.context if priced else replace(self.context, prover=None)
        candidate = find_culprits(context, self.ledger, tolerance, climbs=True)
        assert candidate is not None
        return candidate


@pytest.fixture
def alike() -> Crowd:
    """Every unit loses a hundredth."""
    return Crowd.of(lambda number: 0.01)


def test_what_matters_everywhere_is_raised_in_one_piece_with_few_tests(alike: Crowd) -> None:
    scattered, fresh = alike.find(TIGHT, priced=False), Crowd.of(lambda number: 0.01)
    piece = fresh.find(TIGHT)
    assert len(piece.raised) == len(scattered.raised) == COUNT - 24
    places = sorted(fresh.units.index(unit) for unit in piece.raised)
    assert places == list(range(places[0], places[0] + len(places)))
    assert fresh.ms(piece) < 0.8 * fresh.ms(scattered)
    assert len(fresh.ledger.trials) < len(alike.ledger.trials)


@pytest.mark.parametrize("side", [1, -1])
def test_the_cheaper_end_of_the_network_is_raised(side: int) -> None:
    """What weighs most is at one end: raising that takes fewer units than raising the other."""
    crowd = Crowd.of(lambda number: 0.01 + side * 0.01 * (number - 31.5) / 63)
    places = [crowd.units.index(unit) for unit in crowd.find(TIGHT).raised]
    assert len(places) < 0.6 * COUNT
    wanted = range(COUNT)[-len(places) :] if side > 0 else range(COUNT)[: len(places)]
    assert sorted(places) == list(wanted)


def test_few_that_matter_among_many_are_still_found_alone() -> None:
    few = Crowd.of(lambda number: 0.5 if number in (3, 20, 50) else 1e-6)
    candidate = few.find(Tolerance(0.1))
    assert set(candidate.raised) == {few.units[number] for number in (3, 20, 50)}
    assert len(candidate.evidence) == 3


def test_a_few_neighbours_in_the_order_are_no_crowd() -> None:
    # The least harmful units that pass are the ones that matter: it looks crowded, but a piece is dearer.
    few = Crowd.of(lambda number: 1e-6)
    matter = {few.units[0], few.units[-1], *few.harm[40:46]}
    few.weights.update(dict.fromkeys(matter, 0.5))
    assert set(few.find(Tolerance(0.1)).raised) == matter


def test_only_removals_that_make_a_large_set_faster_are_tested(alike: Crowd) -> None:
    candidate = cheapest(alike.context, alike.ledger, alike.find(TIGHT), TIGHT, alike.prover)
    assert len(candidate.raised) >= MANY
    assert candidate.evidence
    assert all(item.trial.status is Status.FAIL for item in candidate.evidence)
    saved = alike.prover.saved_ns(candidate.placements)
    tested = {item.unit for item in candidate.evidence}
    assert tested == {unit for unit, much in saved.items() if much > 0}
    assert candidate.certificate is not None
    assert candidate.certificate.tests == SearchPolicy().proof.tests_of_many
    assert len(tested) < len(candidate.raised)


def test_a_reason_says_that_a_unit_breaks_only_where_that_was_tested(alike: Crowd) -> None:
    candidate = cheapest(alike.context, alike.ledger, alike.find(TIGHT), TIGHT, alike.prover)
    tested = {item.unit for item in candidate.evidence}
    assert {unit for unit, item in candidate.raised.items() if item.reason.startswith("breaks at")} == tested
    others = [item.reason for unit, item in candidate.raised.items() if unit not in tested]
    assert others
    assert all(reason.startswith("raised with others, not tested alone: ") for reason in others)


def test_units_that_only_cost_time_go_back(alike: Crowd) -> None:
    tolerance = Tolerance(0.3)
    passing = alike.raised(alike.units[: COUNT - 24])
    assert alike.ledger.judge(passing.raised, tolerance, spare=True).passed
    candidate = cheapest(alike.context, alike.ledger, passing, tolerance, alike.prover)
    assert len(candidate.raised) == COUNT - 30
    assert alike.ms(candidate) < alike.ms(passing)


def test_no_plan_takes_longer_than_raising_everything() -> None:
    # Every second unit matters: each border costs more than the unit beside it saves.
    crowd = Crowd.of(lambda number: 0.01 if number % 2 else 0.0)
    every_second, whole = crowd.raised(crowd.units[1::2]), crowd.raised(crowd.units)
    assert crowd.ms(whole) < crowd.ms(every_second)
    candidate = _searched(crowd.context, crowd.ledger, Tolerance(0.001), climbs=False)
    assert candidate is not None
    assert crowd.ms(candidate) <= crowd.ms(whole)


def test_small_graphs_are_proven_whatever_they_raise(alike: Crowd) -> None:
    assert alike.prover.priced.problem.size == COUNT
    places = dict.fromkeys(alike.units, FLOAT)
    proof = SearchPolicy().proof
    assert alike.prover._most_tests(places) == proof.tests_of_many
    assert alike.prover._most_tests(dict(list(places.items())[:30])) == proof.tests
    assert alike.context.space.low == LOW
