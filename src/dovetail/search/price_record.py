"""The vendor's prices of units in a search: asked for once, then those on record.

What a vendor's model says in time depends on the machine, on what was asked before and on whether its SDK is here; the
answer of a search must not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dovetail.cost.model import CostModel
from dovetail.cost.probing import ProbeOptions, probe_units
from dovetail.cost.unit_prices import ProbedPrices
from dovetail.plan.placement import Placement
from dovetail.search.journal import Journal
from dovetail.search.log import SearchLog


@dataclass(frozen=True, slots=True)
class PriceRecord:
    """Where the prices of one search are written; a replay goes by those that are `given`.

    `told` is called with the stage that begins when the vendor's model is waited for.
    """

    journal: Journal | None = None
    log: SearchLog | None = None
    given: ProbedPrices | None = None
    told: Callable[[str], None] | None = None

    def settle(self, model: CostModel, places: Sequence[Placement], limit_s: float) -> ProbedPrices:
        """Return the prices of units at placements; the vendor's model is asked for `limit_s` if none are on record."""
        prices = self.given
        if prices is None:
            prices = self._recalled(model, places, limit_s) if limit_s else ProbedPrices()
        if self.log is not None and prices.figures:
            self.log.prices(prices)
        return prices

    def _recalled(self, model: CostModel, places: Sequence[Placement], limit_s: float) -> ProbedPrices:
        if self.journal is None:
            return self._probed(model, places, limit_s)
        question = _question(model, places)
        known = self.journal.recall_prices(question)
        if known is None:
            known = self._probed(model, places, limit_s)
            self.journal.record_prices(question, known)
        return known

    def _probed(self, model: CostModel, places: Sequence[Placement], limit_s: float) -> ProbedPrices:
        def waits() -> None:
            if self.told is not None:
                self.told(f"asking the vendor's model for prices, for {limit_s:g} s at most")

        return probe_units(model, places, ProbeOptions(limit_s), waits)


def _question(model: CostModel, places: Sequence[Placement]) -> str:
    """Return a digest of what is asked about; the journal's context stands for the graph."""
    units = [unit.nodes for unit in model.units.items]
    return hashlib.sha256(f"{units}|{list(map(str, dict.fromkeys(places)))}".encode()).hexdigest()
