"""The verdict on a plan: what samples that did not select it say of its loss, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.ir.dtypes import AnyArray
from dovetail.search.bounds import Interval, LossRange, loss_interval, samples_to_decide


class Verdict(Enum):
    """Whether a plan meets the goal on new samples."""

    MET = "met"
    """The bound of its loss is within the goal."""
    LIKELY = "likely met"
    """The estimate is, on samples that did not select the plan."""
    MISSED = "missed"

    @property
    def is_within(self) -> bool:
        """Tell whether the goal is met as far as one knows."""
        return self is not Verdict.MISSED


@dataclass(frozen=True, slots=True)
class Assessment:
    """A verdict with the figures that it rests on; losses are in the metric's unit."""

    verdict: Verdict
    loss: float
    """Mean over the samples."""
    allowance: float
    """The loss that the goal allows."""
    samples: int
    """Samples that did not select the plan."""
    interval: Interval | None = None
    """What the loss on new samples is between; None where nothing says so."""
    more: int | None = None
    """Samples more that would decide, if they lose as these do; None where no number would, or nobody knows."""
    reason: str = ""
    """Why the goal is missed where it is not for the mean of all samples."""

    @property
    def surely_missed(self) -> bool:
        """Tell whether the goal is missed beyond doubt."""
        if self.verdict is not Verdict.MISSED:
            return False
        return bool(self.reason) or self.interval is None or self.interval.lower > self.allowance + 1e-12

    def __str__(self) -> str:
        if self.reason:
            return f"{self.verdict.value}: {self.reason}"
        if self.interval is None:
            unknown = "its interval is unknown, as samples have no scores of their own, or none within 0 and 1"
            return f"{self.verdict.value}: loss {self.loss:.2g}, {self.allowance:.3g} allowed; {unknown}"
        between = f"between {self.interval.lower:.2g} and {self.interval.upper:.2g}"
        more = f"; about {_rounded(self.more):,} more samples would decide" if self.more else ""
        return f"{self.verdict.value}: loss {self.loss:.2g}, {between}, {self.allowance:.3g} allowed{more}"


def assess(losses: AnyArray, limits: LossRange | None, doubt: float, allowance: float) -> Assessment:
    """Return the verdict on a plan by the losses of samples `[N]` that did not select it.

    Each bound is wrong with a probability of at most `doubt`. `limits` are None where nothing limits a sample's loss.
    """
    if limits is None or losses.max() > limits.largest or losses.min() < limits.least:
        return assess_mean(float(losses.mean()), len(losses), allowance)
    interval = loss_interval(losses, limits, doubt)
    more = samples_to_decide(losses, limits, doubt, allowance)
    plain = assess_mean(float(losses.mean()), len(losses), allowance)
    is_met = interval.upper <= allowance + 1e-12
    return Assessment(Verdict.MET if is_met else plain.verdict, plain.loss, allowance, plain.samples, interval, more)


def assess_mean(loss: float, samples: int, allowance: float) -> Assessment:
    """Return the verdict on a plan of whose loss only the mean is known."""
    return Assessment(Verdict.LIKELY if loss <= allowance + 1e-12 else Verdict.MISSED, loss, allowance, samples)


def _rounded(count: int) -> int:
    """Return a number with one digit that counts: more is not known."""
    return int(float(f"{count:.0e}"))
