"""A candidate: a plan that the search proposes, with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dovetail.ir.dtypes import AnyArray
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.search.certificate import Certificate
from dovetail.search.result import Evidence
from dovetail.search.trial import Trial
from dovetail.search.verdict import Assessment, Verdict


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What samples say of a plan that did not select it."""

    assessment: Assessment
    trial: Trial
    """The trial on the hold-out split."""
    exact: bool = False
    """Exact simulation made the trial."""
    losses: AnyArray | None = None
    """The loss of every sample of the hold-out; None without scores of samples, or where not all were needed."""


def refused(acceptance: Acceptance, reason: str) -> Acceptance:
    """Return what samples say of a plan that misses the goal for another reason."""
    assessment = replace(acceptance.assessment, verdict=Verdict.MISSED, reason=reason)
    return replace(acceptance, assessment=assessment)


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
    """What it costs, and what is proven of cheaper plans; None where nothing is priced or nobody looked."""
    within_limits: bool = True
    """The limits of the request hold; where they do not, no plan that was tested keeps them and passes."""
    remarks: tuple[str, ...] = ()
    """What a person has to know of it besides."""
    acceptance: Acceptance | None = None
    """What samples say that did not select it; None before they were asked."""

    @property
    def placements(self) -> dict[str, Placement]:
        """Return where each raised unit goes."""
        return placements_of(self.raised)

    @property
    def assessment(self) -> Assessment:
        """Return the verdict; only of a candidate that was judged."""
        assert self.acceptance is not None
        return self.acceptance.assessment

    @property
    def verdict(self) -> Verdict:
        """Return the word of the verdict; only of a candidate that was judged."""
        return self.assessment.verdict


def placements_of(raised: Mapping[str, Override]) -> dict[str, Placement]:
    """Return where each raised unit goes."""
    return {unit: override.placement for unit, override in raised.items()}
