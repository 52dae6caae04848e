"""The cheapest plan under a budget of noise: where nearly every unit does a little harm, few tests find the budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger
from dovetail.search.noise import noise_power
from dovetail.search.optimum import Problem, solve
from dovetail.search.policy import BudgetPolicy
from dovetail.search.proof import Prover
from dovetail.search.tolerance import Tolerance

Units = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Point:
    """What is cheapest at a price of noise."""

    price_ns: float
    units: Units
    latency_ns: float


@dataclass(frozen=True, slots=True)
class _Trade:
    """Latency against the noise that stays, by a price of noise (a Lagrange multiplier)."""

    context: SearchContext
    prover: Prover
    top: bool
    """Units are raised to the last rung instead of the first."""
    noise: tuple[float, ...]
    """The noise power, over the signal's, that every unit leaves at the outputs when it is low."""
    _known: dict[float, _Point | None] = field(default_factory=dict)

    def at(self, price_ns: float) -> _Point | None:
        """Return what is cheapest with one rung for each unit when noise costs so much; None where there is nothing."""
        if price_ns not in self._known:
            self._known[price_ns] = self._solved(price_ns)
        return self._known[price_ns]

    def _solved(self, price_ns: float) -> _Point | None:
        problem, prover = self.prover.priced.problem, self.prover

        def ends(values: tuple[float, ...]) -> tuple[float, ...]:
            return values if len(values) < 2 else (values[0], values[-1] if self.top else values[1])

        costs = [ends(latencies) for latencies in problem.cost_ns]
        # What a plan may take is a matter of its latency alone: here noise is a part of it.
        free: Problem = replace(
            problem,
            choices=tuple(tuple(map(int, ends(ladder))) for ladder in problem.choices),
            cost_ns=tuple(
                (first + price_ns * noise, *rest) for (first, *rest), noise in zip(costs, self.noise, strict=True)
            ),
            weight_bytes=tuple(tuple(map(int, ends(sizes))) for sizes in problem.weight_bytes),
            demands=replace(problem.demands, most_latency_ns=None),
            migrates=True,
        )
        solution = solve(free, time_limit_s=prover.options.time_limit_s, policy=prover.policy.solver)
        if solution is None:
            return None
        # Units that a toolchain can only place alike are raised as one when any of them is.
        names = (prover.priced.name(number) for number, level in enumerate(solution.assignment) if level)
        units = tuple(dict.fromkeys(names))
        space = self.context.space
        return _Point(price_ns, units, prover.latency_ns({unit: space.rung(unit, self.top) for unit in units}))

    def prices_ns(self, policy: BudgetPolicy) -> tuple[float, float]:
        """Return a price at which hardly anything is worth raising, and one at which nearly everything is."""
        problem, span = self.prover.priced.problem, policy.span
        added = sum(abs(costs[-1] - costs[0]) for costs in problem.cost_ns)
        middle = max(added, 1.0) / sum(self.noise)
        return middle / span, middle * span

    def between(self, low: _Point, high: _Point, policy: BudgetPolicy) -> _Point | None:
        """Return what takes about the mean of the latencies of two points, at a price between theirs.

        None where nothing lies between them that is cheaper than the dearer one by enough.
        """
        wanted = (low.latency_ns + high.latency_ns) / 2
        below, above, found = low.price_ns, high.price_ns, list[_Point]()
        for _ in range(policy.solutions):
            point = self.at(math.sqrt(below * above))
            if point is None:
                break
            found.append(point)
            if abs(point.latency_ns - wanted) <= (high.latency_ns - low.latency_ns) / 4:
                break
            below, above = (point.price_ns, above) if point.latency_ns < wanted else (below, point.price_ns)
        least, most = low.latency_ns, (1 - policy.worthwhile) * high.latency_ns
        apart = [point for point in found if least < point.latency_ns < most and point.units != low.units]
        return min(apart, key=lambda point: abs(point.latency_ns - wanted), default=None)


def cheapest_that_passes(context: SearchContext, ledger: Ledger, tolerance: Tolerance, prover: Prover) -> Units | None:
    """Return the units that the cheapest plan raises which leaves as much noise as a tolerance allows.

    None where units were not measured alone, or where no price of noise gives a plan that passes.
    """

    def passes(units: Units) -> bool:
        raised = context.raised(units, top=ledger.starts_at_top, tested=False)
        return ledger.judge(raised, tolerance).passed

    return cheapest_under_noise(context, ledger, prover, passes, ledger.may_go_on)


def cheapest_under_noise(
    context: SearchContext,
    ledger: Ledger,
    prover: Prover,
    passes: Callable[[Units], bool],
    go_on: Callable[[], bool],
) -> Units | None:
    """Return the units of the cheapest plan whose noise passes a test; what is cheapest of all is taken to fail it.

    Noise of units adds up; how much of it the test bears is found by bisection of what plans take that have least
    noise for it, until what is left to save is not worth a test.
    """
    policy = context.policy.budget
    if ledger.sensitivities is None:
        return None
    noise = tuple(noise_power(ledger.sensitivities.get(unit, 0.0)) for unit in prover.priced.units)
    if not sum(noise) > 0:
        return None
    trade = _Trade(context, prover, ledger.starts_at_top, noise)
    low, best = (trade.at(price_ns) for price_ns in trade.prices_ns(policy))
    if low is None or best is None or not passes(best.units):
        return None
    for _ in range(policy.tests):
        middle = trade.between(low, best, policy) if go_on() else None
        if middle is None:
            break
        low, best = (low, middle) if passes(middle.units) else (middle, best)
    return best.units
