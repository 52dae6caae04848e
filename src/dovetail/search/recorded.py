"""Evaluations through the journal: what is on record is not made again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from dovetail.errors import DovetailError
from dovetail.plan.plan import Plan
from dovetail.search.evaluator import Evaluator
from dovetail.search.journal import Journal, Scores


class RecordedEvaluator:
    """Evaluate plans; counts samples so that the cost of a search is known."""

    def __init__(self, evaluator: Evaluator, journal: Journal, kind: str = "fast") -> None:
        self.evaluator = evaluator
        self._journal = journal
        self._kind = kind
        self._seen: set[tuple[str, str]] = set()
        self.fresh_samples = 0
        """Samples evaluated in this process."""
        self.recalled_samples = 0
        """Samples whose scores an earlier, interrupted search had left in the journal."""

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        """Return the scores of a plan; a plan that cannot be tested scores NaN with the reason."""
        return self.once(self._kind, plan, indices, lambda: self.evaluator.evaluate(plan, indices))

    def once(self, kind: str, plan: Plan, indices: Sequence[int], measure: Callable[[], Scores]) -> Scores:
        """Return what `measure` gives for a plan on some samples, or what is on record of it."""
        block = f"{kind}:{len(indices)}:{hash_indices(indices)}"
        known = self._journal.recall(plan.digest, block)
        first = (plan.digest, block) not in self._seen
        self._seen.add((plan.digest, block))
        if known is not None:
            self.recalled_samples += len(indices) if first else 0
            return known
        start = time.perf_counter_ns()
        try:
            scores = measure()
        except DovetailError as error:
            scores = Scores(float("nan"), None, str(error))
        self._journal.record(plan.digest, block, scores, time.perf_counter_ns() - start)
        self.fresh_samples += len(indices)
        return scores


def hash_indices(indices: Sequence[int]) -> str:
    """Return a short digest of a list of sample indices."""
    return hashlib.sha256(np.asarray(indices, dtype="<i8").tobytes()).hexdigest()[:16]
