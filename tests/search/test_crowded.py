"""Where nearly every unit matters: few tests, one piece of the network, and never more than raising everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dovetail.ir import Graph
from dovetail.plan import Limits, Plan, parse_placement
from dovetail.search import CostOptions, Status
from dovetail.search.cheapest import cheapest
from dovetail.search.hunt import MANY, Found, Guide, Hunt, HuntOptions
from dovetail.search.oracle import Bar
from dovetail.search.prior import Suspicion
from dovetail.search.proof import Prover, make_prover
from dovetail.search.rounds import Seekers
from dovetail.search.sensitivity import probed_samples
from dovetail.search.space import Space, make_space
from dovetail.search.trial import Trial
from dovetail.testing.networks import Network

LOW, CPU = parse_placement("vsi:v853@i8pc"), parse_placement("cpu@fp32")
COUNT = 64
SILENT: Any = SimpleNamespace(stage=lambda _: None, trial=lambda _: None)


def _chain() -> Graph:
    net = Network(1)
    last = net.input("x", 1, 8, 12, 12)
    for _ in range(COUNT):
        last = net.conv(last, 8)
    return net.graph(last)


class Weighed:
    """An oracle whose plans lose what their low units weigh, and which counts what it is asked."""

    width = 1
    indices = (0,)

    def __init__(self, space: Space, weights: Mapping[str, float]) -> None:
        self._space, self._weights = space, weights
        self.asked: list[str] = []

    def ahead(self, plans: Sequence[Plan]) -> None:
        """Begin nothing."""

    def judge(self, plan: Plan, raised: Sequence[str], bar: Bar, *, race: bool = True) -> Trial:
        self.asked.append(plan.digest)
        lost = sum(weight for unit, weight in self._weights.items() if unit not in raised)
        status = Status.PASS if bar.met_by(lost) else Status.FAIL
        return Trial(plan.digest, tuple(raised), status, 1 - lost, 1.0, 1, 1)


class Bench:
    """A hunt through a chain of equal layers, of which each loses about as much."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, weigh: Callable[[int], float]) -> None:
        graph = _chain()
        self.space = make_space(graph, LOW, (CPU,))
        self.units = list(self.space.units)
        weights = {unit: weigh(number) for number, unit in enumerate(self.units)}
        order = [self.units[number] for number in np.random.default_rng(2).permutation(COUNT)]
        harm = {unit: 1.0 / (1 + rank) for rank, unit in enumerate(order)}
        monkeypatch.setattr("dovetail.search.hunt.quantise_few", lambda *_: harm)
        self.oracle: Any = Weighed(self.space, weights)
        ranked = [Suspicion(unit, harm[unit], "drawn") for unit in order]
        nothing: Any = None
        self.hunt = Hunt(ranked, self.space, nothing, self.oracle, HuntOptions(SILENT, 1000))
        self.prover = make_prover(self.space, Limits(), CostOptions(), order)

    def guide(self, worth: bool = True) -> Guide:
        return Guide(self.prover.price_ns, lambda found: worth)

    def seekers(self, holds: Callable[[Found], bool]) -> Seekers:
        nothing: Any = None
        return Seekers(self.hunt, self.prover, False, nothing, holds)

    def ms(self, found: Found) -> float:
        return self.prover.price_ns(found.raised) / 1e6


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Every unit loses a hundredth."""
    return Bench(monkeypatch, lambda number: 0.01)


def _found(found: Found | None) -> Found:
    assert found is not None
    return found


def test_what_matters_everywhere_is_raised_in_one_piece_with_few_tests(alike: Bench) -> None:
    bar = Bar(0.24)
    scattered = _found(alike.hunt.find(bar))
    tests = len(alike.oracle.asked)
    alike.oracle.asked.clear()
    alike.hunt._verdicts.clear()
    found = _found(alike.hunt.find(bar, guide=alike.guide()))
    assert len(found.raised) == len(scattered.raised) == COUNT - 24
    places = sorted(alike.units.index(unit) for unit in found.raised)
    assert places == list(range(places[0], places[0] + len(places)))
    assert alike.ms(found) < 0.8 * alike.ms(scattered)
    assert len(alike.oracle.asked) < tests


def test_what_the_hold_out_split_refuses_is_not_made_smaller(alike: Bench) -> None:
    refused = _found(alike.hunt.find(Bar(0.24), guide=alike.guide(worth=False)))
    assert len(refused.raised) == COUNT - 24
    assert len(alike.oracle.asked) < 25


def test_few_that_matter_among_many_are_still_found_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Bench(monkeypatch, lambda number: 0.5 if number in (3, 20, 50) else 1e-6)
    found = _found(few.hunt.find(Bar(0.1), guide=few.guide()))
    assert set(found.raised) == {few.units[number] for number in (3, 20, 50)}
    assert len(found.evidence) == 3


def test_a_few_neighbours_in_the_order_are_no_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    # The least harmful units that pass are the ones that matter: it looks crowded, but a piece is dearer.
    few = Bench(monkeypatch, lambda number: 1e-6)
    order = [item.unit for item in few.hunt.suspicions]
    matter = {few.units[0], few.units[-1], *order[40:46]}
    few.oracle._weights = {unit: 0.5 if unit in matter else 1e-6 for unit in few.units}
    found = _found(few.hunt.find(Bar(0.1), guide=few.guide()))
    assert set(found.raised) == matter


def test_only_removals_that_make_a_large_set_faster_are_tested(alike: Bench) -> None:
    bar = Bar(0.24)
    found = cheapest(alike.hunt, alike.prover, _found(alike.hunt.find(bar, guide=alike.guide())), bar)
    assert len(found.raised) >= MANY
    assert found.evidence
    assert all(item.trial.status is Status.FAIL for item in found.evidence)
    saved = alike.prover.saved_ns({unit: item.placement for unit, item in found.raised.items()})
    assert {item.unit for item in found.evidence} == {unit for unit, much in saved.items() if much > 0}
    assert found.certificate is not None
    assert found.certificate.tests == 0
    tested = {item.unit for item in found.evidence}
    assert len(tested) < len(found.raised)
    assert {unit for unit, item in found.raised.items() if item.reason.startswith("breaks at")} == tested
    others = [item.reason for unit, item in found.raised.items() if unit not in tested]
    assert all(reason.startswith("raised with others, not tested alone: ") for reason in others)


def test_units_that_only_cost_time_go_back(alike: Bench) -> None:
    bar = Bar(0.3)
    passing = alike.hunt._found(alike.hunt._raise(alike.units[: COUNT - 24]), ())
    assert alike.hunt.judge(passing.raised, bar).passed
    found = cheapest(alike.hunt, alike.prover, passing, bar)
    assert len(found.raised) == COUNT - 30
    assert alike.ms(found) < alike.ms(passing)


def test_no_plan_takes_longer_than_raising_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every second unit matters: each border costs more than the unit beside it saves.
    bench = Bench(monkeypatch, lambda number: 0.01 if number % 2 else 0.0)
    every_second = bench.hunt._found(bench.hunt._raise(bench.units[1::2]), ())
    whole = bench.hunt.whole()
    assert bench.ms(whole) < bench.ms(every_second)
    found = _found(bench.seekers(lambda found: True).find(Bar(0.001), SILENT, climbs=False))
    assert bench.ms(found) <= bench.ms(whole)
    dear = bench.seekers(lambda found: True).suspect(every_second, 0.0625, top=False)
    assert dear.plan.digest == whole.plan.digest


def test_a_plan_that_the_hold_out_agrees_with_is_not_thrown_away_for_a_cheaper_one(alike: Bench) -> None:
    bar = Bar(0.24)
    start = alike.hunt._found(alike.hunt._raise(alike.units[: COUNT - 20]), ())
    assert alike.hunt.judge(start.raised, bar).passed
    seekers = alike.seekers(lambda found: found.plan.digest == start.plan.digest)
    found = seekers._cheapest_held(alike.prover, start, bar)
    assert found.plan.digest == start.plan.digest
    assert found.note == "for the bound, what the hold-out split refused fails"
    assert found.certificate is not None
    assert found.certificate.cost.latency_ns == pytest.approx(alike.prover.price_ns(start.raised))
    assert found.certificate.lower_bound_ns < found.certificate.cost.latency_ns


def test_suspicion_raises_a_share_of_what_is_low(alike: Bench) -> None:
    found = alike.hunt._found(alike.hunt._raise(alike.units[:32]), ())
    sizes = [len(alike.hunt.wider(found, share).raised) for share in (0.0625, 0.25, 1.0)]
    assert sizes == [34, 40, COUNT]
    added = [item for unit, item in alike.hunt.wider(found, 0.25).raised.items() if unit not in found.raised]
    assert all(item.reason.startswith("raised with others, not tested alone") for item in added)


@pytest.mark.parametrize(("values", "samples"), [(10, 8), (20_000, 4), (1_000_000, 2)])
def test_large_outputs_are_probed_on_fewer_samples(values: int, samples: int) -> None:
    net = Network()
    graph = net.graph(net.op("Relu", net.input("x", "N", values)))
    assert probed_samples(graph, 3) == 3 * samples


def test_small_graphs_are_proven_whatever_they_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, lambda number: 0.01)
    prover: Prover = bench.prover
    assert prover.priced.problem.size == COUNT
    places = dict.fromkeys(bench.units, CPU)
    assert prover._most_tests(places) == 0
    assert prover._most_tests(dict(list(places.items())[:30])) > 0
