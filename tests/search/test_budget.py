"""The cheapest plan under a budget of noise: few tests, never dearer than what harms most, raised in that order."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.plan.demands import ToolDemands
from dovetail.search.budget import cheapest_that_passes
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.policy import SearchPolicy
from dovetail.search.strategy import shortest_prefix
from dovetail.search.tolerance import Tolerance
from dovetail.testing.networks import Network

from .stages import WIDE, Setting, open_stages, weighed

COUNT = 40
GOAL = Tolerance(0.2)


def _open(seed: int, alike: int = 1) -> tuple[SearchContext, Ledger]:
    """Return a search through layers of unlike size, each of which loses a little; noise was measured well.

    A toolchain can only place so many neighbours alike.
    """
    rng = np.random.default_rng(seed)
    net = Network(seed)
    last = net.input("x", 1, 8, 48, 48)
    for _ in range(COUNT):
        last = net.conv(last, int(rng.choice([4, 8, 24])))
    graph = net.graph(last)
    weights = {node.name: float(rng.exponential(0.02)) for node in graph.nodes}
    names = list(weights)
    groups = tuple(tuple(names[first : first + alike]) for first in range(0, COUNT, alike) if alike > 1)
    demands = ToolDemands("a test", (WIDE,), groups) if groups else None
    context, ledger = open_stages(Setting(graph, weighed(weights), ladder=(WIDE,), demands=demands))
    space = context.space
    ledger.sensitivities = {unit: sum(weights[part] for part in space.parts(unit)) for unit in space.units}
    return context, ledger


@pytest.mark.parametrize("seed", range(4))
def test_it_is_no_dearer_than_what_harms_most_and_takes_few_tests(seed: int) -> None:
    context, ledger = _open(seed)
    assert context.prover is not None
    assert ledger.sensitivities is not None
    units = cheapest_that_passes(context, ledger, GOAL, context.prover)
    assert units is not None
    assert len(ledger.trials) <= 1 + SearchPolicy().budget.tests
    assert ledger.judge(context.raised(units, top=False), GOAL).passed
    noise = ledger.sensitivities
    order = sorted(noise, key=lambda unit: -noise[unit])
    length = shortest_prefix(order, lambda some: ledger.judge(context.raised(some, top=False), GOAL).status)
    assert length is not None
    latency = [context.prover.latency_ns(dict.fromkeys(some, WIDE)) for some in (units, order[:length], order)]
    assert latency[0] <= latency[1] * 1.001
    assert latency[0] < latency[2]


@pytest.mark.parametrize("seed", range(2))
def test_what_can_only_be_placed_alike_is_raised_as_one(seed: int) -> None:
    context, ledger = _open(seed, alike=3)
    assert context.prover is not None
    assert len(context.space.units) < len(context.prover.priced.units) == COUNT
    units = cheapest_that_passes(context, ledger, GOAL, context.prover)
    assert units
    assert set(units) <= set(context.space.units)
    assert len(set(units)) == len(units)
    assert ledger.judge(context.raised(units, top=False), GOAL).passed


def test_without_measured_noise_or_a_plan_that_passes_there_is_none() -> None:
    context, ledger = _open(0)
    assert context.prover is not None
    assert cheapest_that_passes(context, ledger, Tolerance(-1.0), context.prover) is None
    ledger.sensitivities = None
    assert cheapest_that_passes(context, ledger, GOAL, context.prover) is None
