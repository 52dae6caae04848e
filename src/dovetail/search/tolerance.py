"""What the plans of a search must reach on the search split."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A bound of the mean loss against float, in the metric's unit."""

    allowance: float

    def met_by(self, loss: float) -> bool:
        """Tell whether a mean loss is within the bound."""
        return loss <= self.allowance + 1e-12
