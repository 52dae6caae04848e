"""Which part of the range of every output a detector's decisions hang on: found by clipping float's outputs.

No layout has to be known for that: an end of the range is moved towards the median as long as the detections, their
boxes and their scores stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.bisection import boundary
from dovetail.compare.decisions import Decision
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs import Kind
from dovetail.quantize.ranges import Range
from dovetail.search.context import SearchContext
from dovetail.search.evaluator import EvaluationData, Scorer
from dovetail.search.fanout.task import Query
from dovetail.search.noise import clipped
from dovetail.search.policy import RepairPolicy
from dovetail.search.recorded import RecordedEvaluator
from dovetail.search.trial import Scores


@dataclass(frozen=True, slots=True)
class _Ends:
    """The range of an output, and its median."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, limits: Range, middle: float) -> _Ends:
        """Return the ends of a range."""
        return cls(limits.low, min(max(middle, limits.low), limits.high), limits.high)

    def halved(self, low: int, high: int) -> Range:
        """Return the range whose ends were moved so many times by half of the way to the median."""
        return Range(
            self.middle - (self.middle - self.low) / 2.0**low, self.middle + (self.high - self.middle) / 2.0**high
        )


def needed_ranges(context: SearchContext, recorded: RecordedEvaluator, data: EvaluationData) -> dict[str, Range]:
    """Return the range that is needed of every output of detections of which most is not, by some of the search split.

    Detections have to stay, and what the metric of the search says of them; `data` has that metric and the model as
    shipped. Other decisions say nothing of the numbers that people read beside them: their outputs stay whole.
    """
    request, policy = context.request, context.policy.repair
    if request.decisions is None:
        return {}
    indices, ranges = context.search.indices[: policy.samples], request.calibration.ranges.tensors
    look = _Look(Scorer(data), indices, policy, policy.clipped * context.tolerance.allowance)

    def asked(part: Decision, name: str, number: int) -> float:
        """Return a figure of an output; a number is journalled as a score is."""
        kind = recorded.apart(f"needed of {name}, {number}")
        query = Query(context.space.float_plan, indices)
        return kind.once(query, lambda: Scores(look.figures(part, name, ranges[name])[number], None)).score

    found: dict[str, Range] = {}
    for part in (item for item in request.decisions.parts if item.kind == Kind.DETECTION.value):
        for name in (item for item in part.outputs if item in ranges and item not in found):
            limits = ranges[name]
            ends = _Ends.of(limits, asked(part, name, 0))
            needed = ends.halved(int(asked(part, name, 1)), int(asked(part, name, 2)))
            if needed.high - needed.low <= policy.tightened * (limits.high - limits.low):
                found[name] = needed
    return found


class _Look:
    """Look for the needed range of one output after the other."""

    def __init__(self, scorer: Scorer, indices: Sequence[int], policy: RepairPolicy, allowed: float) -> None:
        self._scorer, self._indices, self._policy, self._allowed = scorer, tuple(indices), policy, allowed
        self._figures: dict[str, tuple[float, float, float]] = {}

    def figures(self, part: Decision, name: str, limits: Range) -> tuple[float, float, float]:
        """Return the median of an output with a range, and how many halvings its low and its high end bear."""
        if name not in self._figures:
            golden = self._scorer.golden(self._indices)
            values = golden[name][np.isfinite(golden[name])]
            ends = _Ends.of(limits, float(np.median(values)) if values.size else 0.0)
            self._figures[name] = (ends.middle, *self._halvings_of(part, name, ends, golden))
        return self._figures[name]

    def _halvings_of(self, part: Decision, name: str, ends: _Ends, golden: Mapping[str, AnyArray]) -> tuple[int, int]:
        agreed = part.metric.per_sample(golden, golden)
        before = self._scorer.scores(dict(golden), self._indices).score

        def differs(outputs: dict[str, AnyArray]) -> bool:
            return not float((agreed - part.metric.per_sample(outputs, golden)).mean()) <= self._policy.clipped

        def fails(low: int, high: int) -> bool:
            outputs = clipped(golden, {name: ends.halved(low, high)})
            worse = before - self._scorer.scores(outputs, self._indices).score
            return differs(outputs) or not worse <= self._allowed

        if not differs(clipped(golden, {name: ends.halved(self._policy.halvings, self._policy.halvings)})):
            return 0, 0  # Who bears that does not read the output, or not as it is meant.
        low = _steps(self._policy.halvings, lambda count: fails(count, 0))
        high = _steps(self._policy.halvings, lambda count: fails(0, count))
        # Together they may bear less than each alone.
        while (low or high) and fails(low, high):
            low, high = max(0, low - 1), max(0, high - 1)
        return low, high


def _steps(most: int, fails: Callable[[int], bool]) -> int:
    """Return how many steps to take: one less than these samples bear, for others."""
    if not fails(most):
        return most - 1
    return max(0, boundary(0, most, fails) - 2)
