"""A candidate: a plan that the search proposes, with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.ir.dtypes import AnyArray
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.search.certificate import Certificate
from dovetail.search.result import Evidence, Margin
from dovetail.search.trial import Trial


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Whether a plan holds on the hold-out split."""

    accepted: bool
    summary: str
    trial: Trial
    bound: float | None = None
    """What the plan loses on new samples at most, by those of the hold-out; None where nothing says so."""
    exact: bool = False
    """Exact simulation made the trial."""
    losses: AnyArray | None = None
    """The loss of every sample of both splits, those of the search split first."""
    estimate: float | None = None
    """What both splits together give for the bound: an estimate, as the search split has selected the plan."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that the search proposes."""

    plan: Plan
    raised: Mapping[str, Override]
    """Where each raised unit goes, and why."""
    evidence: tuple[Evidence, ...] = ()
    """What came of putting single units back."""
    companions: frozenset[str] = frozenset()
    """Raised units that meet the target at low precision too, but save more at their boundaries than they cost."""
    certificate: Certificate | None = None
    """What is proven of cheaper plans; None where nobody looked for one."""
    within_limits: bool = True
    """The limits of the request hold; where they do not, no plan that was tested keeps them and passes."""
    remarks: tuple[str, ...] = ()
    """What a person has to know of it besides."""
    margin_units: frozenset[str] = frozenset()
    """Raised units that the samples do not ask for."""
    margin: Margin | None = None
    """How sure the loss is; None where nothing is known of it."""
    acceptance: Acceptance | None = None
    """What the hold-out split says; None before it was asked."""

    @property
    def placements(self) -> dict[str, Placement]:
        """Return where each raised unit goes."""
        return placements_of(self.raised)

    @property
    def accepted(self) -> bool:
        """Tell whether the hold-out split agrees with the plan."""
        return self.acceptance is not None and self.acceptance.accepted

    @property
    def summary(self) -> str:
        """Return what the hold-out split says, in words."""
        return "not asked of the hold-out" if self.acceptance is None else self.acceptance.summary

    @property
    def holdout_gain(self) -> float:
        """Return the score beyond that of float on what was evaluated of the hold-out split."""
        if self.acceptance is None:
            return float("-inf")
        return self.acceptance.trial.score - self.acceptance.trial.float_score


def placements_of(raised: Mapping[str, Override]) -> dict[str, Placement]:
    """Return where each raised unit goes."""
    return {unit: override.placement for unit, override in raised.items()}
