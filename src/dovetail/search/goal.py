"""What a plan has to reach."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from dovetail.errors import SearchError


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of the loss against the float model: `max_drop` in the metric's unit, or a share of the float score.

    `min_score` demands a score as well, whatever float has. With `sure` the bound of what the plan loses on
    new samples has to be within the allowance, not only the estimate.
    """

    max_drop: float
    relative: bool = False
    min_score: float | None = None
    sure: bool = False

    def allowance(self, float_score: float) -> float:
        """Return the loss allowed below a float score (in the metric's unit, always counted as a loss)."""
        return abs(float_score) * self.max_drop if self.relative else self.max_drop

    def __str__(self) -> str:
        drop = f"{self.max_drop:.3g} x float" if self.relative else f"{self.max_drop:.3g}"
        floor = "" if self.min_score is None else f", score at least {self.min_score:g}"
        sure = ", for sure" if self.sure else ""
        return f"drop at most {drop}{floor}{sure}"


def parse_goal(text: str, min_score: float | None = None, *, sure: bool = False) -> Goal:
    """Return the goal that `0.01` (absolute) or `1%` (of the float score) names; raise SearchError."""
    relative = text.strip().endswith("%")
    try:
        drop = float(text.strip().removesuffix("%")) / (100 if relative else 1)
    except ValueError:
        drop = -1.0
    if not 0 <= drop < float("inf"):
        raise SearchError(f"'{text}' is not an allowed drop.", hint="Write 0.01 (of the metric) or 1% (of float).")
    if min_score is not None and not isfinite(min_score):
        raise SearchError(f"{min_score:g} is no least score.", hint="Give a number.", option="min_score")
    return Goal(drop, relative, min_score, sure)
