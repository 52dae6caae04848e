"""Evaluations through the journal: what is on record is not made again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from dovetail.errors import DovetailError
from dovetail.plan.plan import Plan
from dovetail.search.evaluator import Evaluator
from dovetail.search.fanout.dispatch import Dispatch, Order
from dovetail.search.fanout.task import Job
from dovetail.search.journal import Journal, Scores, block_key


class NotOnRecord(Exception):
    """A replay needs what its log does not have; nothing on the way may take it for a plan that cannot be tested."""


class RecordedEvaluator:
    """Evaluate plans, here or through a desk; counts samples so that the cost of a search is known.

    `work` names what the workers behind the desk were given. `retries` is how often a plan that cannot be tested is
    tried again here; a crew has its own count.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        journal: Journal,
        kind: str = "fast",
        desk: tuple[Dispatch, str] | None = None,
        retries: int = 0,
    ) -> None:
        self.evaluator = evaluator
        self._retries = retries
        self._journal = journal
        self._kind = kind
        self._desk = desk
        self._seen: set[tuple[str, str]] = set()
        self._before = frozenset(journal.entries())
        self.fresh_samples = 0
        """Samples evaluated for this search."""
        self.recalled_samples = 0
        """Samples whose scores an earlier, interrupted search had left in the journal."""

    @property
    def width(self) -> int:
        """Return how many evaluations run at once."""
        return 1 if self._desk is None else self._desk[0].width

    @property
    def events(self) -> tuple[str, ...]:
        """Return what went wrong with workers, in words."""
        return () if self._desk is None else self._desk[0].events

    def apart(self, kind: str) -> RecordedEvaluator:
        """Return the same evaluator with a record of its own."""
        return RecordedEvaluator(self.evaluator, self._journal, kind, self._desk, self._retries)

    def close(self) -> None:
        """Let the workers go."""
        if self._desk is not None:
            self._desk[0].close()

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        """Return the scores of a plan; a plan that cannot be tested scores NaN with the reason."""
        return self.once(Job.SCORE, plan, indices, lambda: self.evaluator.evaluate(plan, indices))

    def ahead(self, wanted: Sequence[tuple[Job, Plan, Sequence[int]]]) -> None:
        """Say what will be wanted soon, the most likely first."""
        if self._desk is not None:
            desk, key = self._desk
            desk.ahead([Order(key, self._name(job), job, plan, tuple(indices)) for job, plan, indices in wanted])

    def once(self, job: Job, plan: Plan, indices: Sequence[int], measure: Callable[[], Scores]) -> Scores:
        """Return what `measure` gives for a plan on some samples, or what is on record of it."""
        entry = plan.digest, block_key(self._name(job), indices)
        scores = self._scores(entry, job, plan, indices, measure)
        if entry not in self._seen:
            self._journal.used(*entry, scores)
            self._seen.add(entry)
            if entry in self._before:
                self.recalled_samples += len(indices)
            else:
                self.fresh_samples += len(indices)
        return scores

    def _scores(
        self, entry: tuple[str, str], job: Job, plan: Plan, indices: Sequence[int], measure: Callable[[], Scores]
    ) -> Scores:
        known = self._journal.recall(*entry)
        if known is not None:
            return known
        if self._journal.closed_to_new:
            raise NotOnRecord(f"plan {entry[0][:12]} on {entry[1]}")
        if self._desk is not None:
            desk, key = self._desk
            return desk.get(Order(key, self._name(job), job, plan, tuple(indices)))
        return self._here(entry, measure)

    def _here(self, entry: tuple[str, str], measure: Callable[[], Scores]) -> Scores:
        start = time.perf_counter_ns()
        self._journal.take_off(*entry)
        try:
            scores = _tried(measure, 1 + self._retries)
        except BaseException:
            self._journal.land(*entry)
            raise
        self._journal.record(*entry, scores, time.perf_counter_ns() - start)
        return scores

    def _name(self, job: Job) -> str:
        return self._kind if job is Job.SCORE else job.value


def _tried(measure: Callable[[], Scores], tries: int) -> Scores:
    scores = Scores(float("nan"), None, "never tried")
    for _ in range(tries):
        try:
            return measure()
        except DovetailError as error:
            scores = Scores(float("nan"), None, str(error))
    return scores
