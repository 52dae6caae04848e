"""The cheapest plan under a budget of noise: where nearly every unit does a little harm, few tests find the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dovetail.plan.placement import Placement
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.noise import MOST_NOISE
from dovetail.search.optimum import Assignment, Problem, solve
from dovetail.search.policy import SearchPolicy
from dovetail.search.proof import Prover
from dovetail.search.tolerance import Tolerance

_Raised = Mapping[str, Placement]


@dataclass(frozen=True, slots=True)
class _Trade:
    """Latency against the noise that stays, by a price of noise (a Lagrange multiplier)."""

    prover: Prover
    noise: tuple[float, ...]
    """The noise power, over the signal's, that every unit leaves at the outputs when it is low."""

    def cheapest(self, price_ns: float) -> Assignment | None:
        """Return the cheapest assignment of first rungs when noise costs so much; None where there is none."""
        problem = self.prover.priced.problem
        costs = tuple(
            (latencies[0] + price_ns * noise, *latencies[1:2])
            for latencies, noise in zip(problem.cost_ns, self.noise, strict=True)
        )
        # What a plan may take is a matter of its latency alone: here noise is a part of it.
        free: Problem = replace(
            problem,
            choices=tuple(ladder[:2] for ladder in problem.choices),
            cost_ns=costs,
            weight_bytes=tuple(sizes[:2] for sizes in problem.weight_bytes),
            demands=replace(problem.demands, most_latency_ns=None),
            migrates=True,
        )
        solution = solve(free, time_limit_s=self.prover.options.time_limit_s, policy=self.prover.policy.solver)
        return None if solution is None else solution.assignment

    def prices_ns(self, policy: SearchPolicy) -> tuple[float, float]:
        """Return a price at which hardly anything is worth raising, and one at which nearly everything is."""
        problem, span = self.prover.priced.problem, policy.budget.span
        added = sum(abs(costs[1] - costs[0]) for costs in problem.cost_ns if len(costs) > 1)
        middle = max(added, 1.0) / sum(self.noise)
        return middle / span, middle * span


def cheapest_under_noise(
    context: SearchContext, ledger: Ledger, tolerance: Tolerance, prover: Prover
) -> tuple[str, ...] | None:
    """Return the units that the cheapest plan raises which leaves as much noise as a tolerance allows.

    Noise of units adds up; how much of it the metric bears is found by bisection of its price. None where units were
    not measured alone, or where no price gives a plan that passes.
    """
    if ledger.sensitivities is None or ledger.starts_at_top:
        return None
    trade = _Trade(prover, tuple(_power(ledger.sensitivities.get(unit, 0.0)) for unit in prover.priced.units))
    if not sum(trade.noise) > 0:
        return None
    low, high = trade.prices_ns(context.policy)
    best = _passing(context, ledger, tolerance, trade, high)
    if best is None:
        return None
    for _ in range(context.policy.budget.tests):
        middle = math.sqrt(low * high)
        passing = _passing(context, ledger, tolerance, trade, middle)
        low, high = (low, middle) if passing is not None else (middle, high)
        best = best if passing is None else passing
    return tuple(best)


def _passing(
    context: SearchContext, ledger: Ledger, tolerance: Tolerance, trade: _Trade, price_ns: float
) -> _Raised | None:
    """Return what is raised at a price of noise, if that passes; a unit is raised to its first rung."""
    assignment = trade.cheapest(price_ns)
    if assignment is None:
        return None
    raised = trade.prover.priced.raised(assignment)
    passed = ledger.judge(context.raised(raised, top=False, tested=False), tolerance).passed
    return raised if passed else None


def _power(share: float) -> float:
    """Return noise over signal of a share of noise in 0..2."""
    bounded = min(max(share, 0.0), 0.999 * MOST_NOISE)
    return bounded / (MOST_NOISE - bounded)
