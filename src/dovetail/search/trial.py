"""What an oracle says of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """Say whether a plan meets the target."""

    PASS = "pass"
    FAIL = "fail"
    CANNOT_TEST = "cannot_test"
    """It does not compile, crashes or times out: a verdict on this plan, not the end of the search."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Record one tested plan; `score` and `float_score` are over the same `samples` of `samples_total`."""

    plan_digest: str
    raised: tuple[str, ...]
    status: Status
    score: float
    float_score: float
    samples: int
    samples_total: int
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Tell whether the plan meets the target."""
        return self.status is Status.PASS

    @property
    def complete(self) -> bool:
        """Tell whether all samples were evaluated (a clear loser is rejected on fewer)."""
        return self.samples == self.samples_total
