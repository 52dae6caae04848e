"""What the rounds of a search must reach, with how much of the allowed loss kept back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir.dtypes import AnyArray
from dovetail.search.policy import TolerancePolicy


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A bound of the mean loss against float, in the metric's unit.

    With `losses_only`, samples that do better than float do not make up for those that do worse: on few samples such
    luck hides damage.
    """

    allowance: float
    losses_only: bool = False

    def counted(self, losses: AnyArray) -> AnyArray:
        """Return the losses that count."""
        return np.maximum(losses, 0.0) if self.losses_only else losses

    def met_by(self, loss: float) -> bool:
        """Tell whether a mean loss is within the bound."""
        return loss <= self.allowance + 1e-12


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """What is known of the search split before a plan is tried."""

    samples: int
    has_samples: bool
    """Every sample has a score of its own."""
    float_is_perfect: bool
    """The float model reaches the best score there is on every sample."""
    largest_loss: float | None = None
    """What one sample can lose at most; None where nothing says so."""


def round_tolerances(
    allowance: float, split: SplitFacts, low_passes: bool, policy: TolerancePolicy
) -> tuple[Tolerance, ...]:
    """Return what the rounds of a search must reach, the least demanding first.

    A plan that nobody selected (`low_passes`) needs nothing kept back. When a split is small, samples that win by luck
    hide others that are lost, so that the last round counts losses only.
    """
    tolerances = [Tolerance(allowance)] if low_passes else []
    first, *others = policy.kept_back
    # What is kept back must be measurable: on few samples half of a small drop is less than a sample or two.
    measurable = min(allowance, policy.resolution / split.samples)
    tolerances.append(Tolerance(max(allowance * (1 - first), measurable)))
    if split.float_is_perfect:
        others[-1:] = [policy.nearly_all]
    tolerances += [Tolerance(allowance * (1 - share)) for share in (first, *others)]
    if split.has_samples:
        tolerances.append(Tolerance(allowance * (1 - first), losses_only=True))
    return tuple(dict.fromkeys(tolerances))
