"""What is learnt of a plan: the scores of samples, and the verdict on them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.ir.dtypes import AnyArray


class Status(Enum):
    """Whether a plan meets the target."""

    PASS = "pass"
    FAIL = "fail"
    CANNOT_TEST = "cannot_test"
    """It does not compile, crashes or times out: a verdict on this plan, not the end of the search."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a block of samples, higher is better; `per_sample` is None for a metric of whole sets."""

    score: float
    per_sample: AnyArray | None
    failure: str = ""

    @classmethod
    def failed(cls, reason: str) -> Scores:
        """Return the scores of a plan that cannot be tested."""
        return cls(float("nan"), None, reason)


@dataclass(frozen=True, slots=True)
class Trial:
    """One tested plan; `score` and `float_score` are over the same `samples` of `samples_total`."""

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
