"""Evaluations through the journal: what is on record is not made again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from dovetail.errors import DovetailError
from dovetail.plan.plan import Plan
from dovetail.search.clock import SearchClock
from dovetail.search.evaluator import Evaluator
from dovetail.search.fanout.dispatch import Channel, Order
from dovetail.search.fanout.task import Measure, Query
from dovetail.search.journal import Journal, block_key
from dovetail.search.trial import Scores, Trial


class NotOnRecord(Exception):
    """A replay needs what its log does not have; nothing on the way may take it for a plan that cannot be tested."""


class SampleCount:
    """The samples that a search uses, over all its evaluators and journals: what it costs."""

    def __init__(self, clock: SearchClock | None = None) -> None:
        self.clock = SearchClock(None) if clock is None else clock
        self._before: dict[str, frozenset[tuple[str, str]]] = {}
        self._seen: set[tuple[str, str, str]] = set()
        self.fresh_samples = 0
        """Samples evaluated for this search."""
        self.recalled_samples = 0
        """Samples whose scores an earlier, interrupted search had left in a journal."""

    def open(self, journal: Journal) -> None:
        """Take down what a journal holds before this search writes to it."""
        if journal.context not in self._before:
            self._before[journal.context] = frozenset(journal.entries())

    def is_first(self, journal: Journal, plan: str, block: str, samples: int) -> bool:
        """Count an evaluation of some samples; tell whether the search uses it for the first time."""
        key = (journal.context, plan, block)
        if key in self._seen:
            return False
        self._seen.add(key)
        if (plan, block) in self._before[journal.context]:
            self.recalled_samples += samples
        else:
            self.fresh_samples += samples
        return True


class RecordedEvaluator:
    """Evaluate plans, here or on workers, and count their samples.

    `retries` is how often a plan that cannot be tested is tried again here; a pool of workers has its own count.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        journal: Journal,
        kind: str = "fast",
        channel: Channel | None = None,
        retries: int = 0,
        count: SampleCount | None = None,
    ) -> None:
        self.evaluator = evaluator
        self._retries = retries
        self._journal = journal
        self._kind = kind
        self._channel = channel
        self.count = SampleCount() if count is None else count
        self.count.open(journal)

    @property
    def width(self) -> int:
        """Return how many evaluations run at once."""
        return 1 if self._workers is None else self._workers.dispatch.width

    @property
    def _workers(self) -> Channel | None:
        """Return the way to the workers once they are worth their start."""
        channel = self._channel
        return None if channel is None or self.count.clock.spent_s < channel.after_s else channel

    @property
    def events(self) -> tuple[str, ...]:
        """Return what went wrong with workers, in words."""
        return () if self._channel is None else self._channel.dispatch.events

    def apart(self, kind: str) -> RecordedEvaluator:
        """Return the same evaluator with a record of its own."""
        return RecordedEvaluator(self.evaluator, self._journal, kind, self._channel, self._retries, self.count)

    def close(self) -> None:
        """Let the workers go."""
        if self._channel is not None:
            self._channel.dispatch.close()

    def evaluate(self, plan: Plan, indices: Sequence[int]) -> Scores:
        """Return the scores of a plan; a plan that cannot be tested scores NaN with the reason."""
        return self.once(Query(plan, tuple(indices)), lambda: self.evaluator.evaluate(plan, indices))

    def expect(self, queries: Sequence[Query]) -> None:
        """Announce what will be wanted soon, the most likely first."""
        if (channel := self._workers) is not None:
            channel.dispatch.expect([self._order(channel, query) for query in queries])

    def once(self, query: Query, measure: Callable[[], Scores]) -> Scores:
        """Return what `measure` gives for a query, or what is on record of it."""
        entry = self._entry(query)
        scores = self._scores(query, measure)
        if self.count.is_first(self._journal, *entry, len(query.indices)):
            self._journal.log_use(*entry, scores)
            self.count.clock.add(self._journal.elapsed_ns(*entry) / self.width)
        return scores

    def log_trial(self, split: str, trial: Trial) -> None:
        """Write the verdict on a plan, over a split of this name."""
        self._journal.log_trial(split, trial)

    def _scores(self, query: Query, measure: Callable[[], Scores]) -> Scores:
        entry = self._entry(query)
        known = self._journal.recall(*entry)
        if known is not None:
            return known
        if self._journal.is_closed_to_new:
            raise NotOnRecord(f"plan {entry[0][:12]} on {entry[1]}")
        if (channel := self._workers) is not None:
            return channel.dispatch.get(self._order(channel, query))
        start = _now_ns()
        self._journal.begin(*entry)
        try:
            scores = _tried(measure, 1 + self._retries)
        except BaseException:
            self._journal.end(*entry)
            raise
        # On a busy machine time passes in which this process does nothing.
        elapsed_ns = min(now - before for now, before in zip(_now_ns(), start, strict=True))
        self._journal.record(*entry, scores, elapsed_ns)
        return scores

    def _entry(self, query: Query) -> tuple[str, str]:
        """Return what the journal knows a query by: the plan and the block of samples."""
        return query.plan.digest, block_key(self._name(query), query.indices)

    def _order(self, channel: Channel, query: Query) -> Order:
        return Order(channel.key, self._name(query), query)

    def _name(self, query: Query) -> str:
        return self._kind if query.measure is Measure.SCORE else query.measure.value


def _now_ns() -> tuple[int, int]:
    """Return the time on the wall and that of this process."""
    return time.perf_counter_ns(), time.process_time_ns()


def _tried(measure: Callable[[], Scores], tries: int) -> Scores:
    scores = Scores.failed("never tried")
    for _ in range(tries):
        try:
            return measure()
        except DovetailError as error:
            scores = Scores.failed(str(error))
    return scores
