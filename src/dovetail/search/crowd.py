"""Where many units have to be raised: the cheapest set that few tests find, and what remains to be saved.

Single removals from a large set save next to nothing and take a test each. Here a test is made only of what would save
a stated share of the latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dovetail.search.budget import cheapest_that_passes
from dovetail.search.context import SearchContext
from dovetail.search.ledger import Ledger, Variants
from dovetail.search.proof import Prover
from dovetail.search.strategy import PassingSet, Sweep, shortest_prefix, sweep
from dovetail.search.tolerance import Tolerance


@dataclass(frozen=True, slots=True)
class Crowd:
    """A search where many units may have to be raised."""

    context: SearchContext
    ledger: Ledger
    tolerance: Tolerance
    prover: Prover

    def cheapest(self) -> PassingSet:
        """Return a cheap set that passes where everything raised does; it is crowded where many have to be raised.

        The set that leaves as much noise as the metric bears competes with the beginning and the end of the network,
        which have least borders. Groups are taken from the cheapest as long as one can be spared.
        """
        network = tuple(self.context.space.units)
        best = cheapest_that_passes(self.context, self.ledger, self.tolerance, self.prover) or network
        best = network if self._price(network) <= self._price(best) else best
        for order in (network, network[::-1]):
            best = self._end(order, best) or best
        return self._thinned(best)

    def _end(self, order: Sequence[str], best: Sequence[str]) -> tuple[str, ...] | None:
        """Return the shortest beginning of an order that passes, where that is cheaper than the best set by enough.

        Of those that are cheaper the longest is tested first: when that fails, no shorter one passes.
        """
        policy, ledger = self.context.policy, self.ledger
        most_ns = (1 - policy.budget.worthwhile) * self._price(best)
        lengths = range(1, int(policy.culprits.longest_end * len(order)) + 1)
        longest = max((length for length in lengths if self._price(order[:length]) < most_ns), default=0)
        if not longest or not ledger.may_go_on():
            return None
        variants = self._variants()
        if not ledger.judge(variants.raised(frozenset(order[:longest])), self.tolerance).passed:
            return None
        length = ledger.follow(partial(shortest_prefix, order[:longest]), variants, self.tolerance)
        ends = [tuple(order[:item]) for item in {longest, length or longest}]
        end = min(ends, key=self._price)
        return end if self._price(end) < self._price(best) else None

    def _thinned(self, units: Sequence[str]) -> PassingSet:
        """Return a part of a passing set that passes: groups of units go that do little harm, or are neighbours."""
        context, ledger = self.context, self.ledger
        policy, noise = context.policy, ledger.sensitivities or {}
        known: dict[frozenset[str], float] = {}
        own_ns = self._own_ns()

        def price(some: frozenset[str]) -> float:
            if some not in known:
                known[some] = self._price(tuple(some))
            return known[some]

        def pays(kept: frozenset[str], rest: frozenset[str]) -> bool:
            # Borders inside a set go only when more of it does: what units take themselves may be saved in the end.
            saved_ns = max(price(kept) - price(rest), sum(own_ns[unit] for unit in kept - rest))
            return saved_ns > policy.budget.worthwhile * price(kept)

        network = tuple(unit for unit in context.space.units if unit in set(units))
        rank = {unit: number for number, unit in enumerate(context.order)}
        quiet = sorted(network, key=lambda unit: (noise.get(unit, 0.0), -rank[unit]))
        options = Sweep(policy.budget.groups, policy.culprits.crowd, policy.culprits.many)
        strategy = partial(sweep, orders=(quiet, network), options=options, pays=pays, go_on=ledger.may_go_on)
        kept = ledger.follow(strategy, self._variants(), self.tolerance)
        crowded = len(kept) >= options.least
        if crowded:
            ledger.leave(
                f"parts of {len(kept)} raised units that save less than {policy.budget.worthwhile:.0%} of the latency"
            )
        if crowded and price(kept) >= price(frozenset(units)):
            kept = frozenset(units)
        return PassingSet(tuple(unit for unit in context.order if unit in kept), is_crowded=crowded)

    def _own_ns(self) -> dict[str, float]:
        """Return what raising every unit adds to its own time."""
        priced = self.prover.priced
        rows = zip(priced.units, priced.problem.cost_ns, strict=True)
        top = self.ledger.starts_at_top
        return {unit: costs[-1 if top else min(1, len(costs) - 1)] - costs[0] for unit, costs in rows}

    def _variants(self) -> Variants:
        return Variants(self.context.raised(self.context.order, top=self.ledger.starts_at_top))

    def _price(self, units: Sequence[str]) -> float:
        """Return the latency with some units raised, in nanoseconds."""
        top = self.ledger.starts_at_top
        return self.prover.latency_ns({unit: self.context.space.rung(unit, top) for unit in units})
