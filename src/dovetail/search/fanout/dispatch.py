"""Between a search and its workers: what is wanted now, what is wanted soon, and the journal of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dovetail.plan.plan import Override, Plan
from dovetail.search.fanout.places import Place
from dovetail.search.fanout.pool import Finished, PoolOptions, WorkerPool
from dovetail.search.fanout.task import Query, Task, Work
from dovetail.search.journal import Journal, block_key
from dovetail.search.trial import Scores


@dataclass(frozen=True, slots=True)
class FanOut:
    """Where plans are evaluated; a `place` of None is this process, which no time-out can stop."""

    place: Place | None = None
    options: PoolOptions = field(default_factory=PoolOptions)
    after_s: float = 0.0
    """Time of evaluations in this process before the first goes elsewhere: workers take seconds to start, and a search
    that ends before them is the faster without."""


@dataclass(frozen=True)
class Order:
    """A query for the workers: `key` names the work, `kind` the measurement in the journal."""

    key: str
    kind: str
    query: Query

    @property
    def entry(self) -> tuple[str, str]:
        """Return the plan's digest and the block: the key in the journal."""
        return self.query.plan.digest, block_key(self.kind, self.query.indices)

    @cached_property
    def task(self) -> Task:
        """Return the task for a worker; why nodes are where they are does not matter there."""
        plan = self.query.plan
        moved = {node: Override(item.placement, "") for node, item in plan.overrides.items()}
        bare = Plan(plan.graph_digest, plan.default, moved)
        return Task(self.key, self.query.measure, bare.to_json(), self.query.indices)


class Dispatch:
    """What keeps a pool busy, and writes down what it starts and ends."""

    def __init__(self, pool: WorkerPool, journal: Journal) -> None:
        self._pool = pool
        self._journal = journal
        self._orders: dict[Task, Order] = {}
        self._soon: list[Order] = []

    @property
    def width(self) -> int:
        """Return how many evaluations run at once."""
        return self._pool.width

    @property
    def events(self) -> tuple[str, ...]:
        """Return what went wrong with workers, in words."""
        return tuple(self._pool.events)

    def expect(self, orders: Sequence[Order]) -> None:
        """Announce what will be wanted soon, the most likely first, instead of what was announced before."""
        self._soon = list(orders)
        self._record(self._pool.poll())
        self._fill()

    def get(self, order: Order) -> Scores:
        """Return the scores of what is wanted now."""
        self._start(order)
        while (known := self._journal.recall(*order.entry)) is None:
            self._record(self._pool.wait())
            self._fill()
        return known

    def close(self) -> None:
        """Give up what is under way."""
        self._record(self._pool.poll())
        self._pool.close()
        for order in self._orders.values():
            self._journal.end(*order.entry)

    def _fill(self) -> None:
        while self._soon and len(self._pool.under_way) < self._pool.width:
            order = self._soon.pop(0)
            if self._journal.recall(*order.entry) is None:
                self._start(order)

    def _start(self, order: Order) -> None:
        task = order.task
        if task not in self._orders:
            self._journal.begin(*order.entry)
            self._orders[task] = order
            self._pool.submit(task)

    def _record(self, finished: Sequence[Finished]) -> None:
        for item in finished:
            self._journal.record(*self._orders.pop(item.task).entry, item.scores, item.elapsed_ns)


@dataclass(frozen=True, slots=True)
class Channel:
    """The way to the workers for one evaluator: `key` is the digest of the work that they were given."""

    dispatch: Dispatch
    key: str
    after_s: float = 0.0
    """Time of evaluations in this process before the first goes to the workers."""


def open_channels(fanout: FanOut, makers: Sequence[Callable[[], Work]], journal: Journal) -> list[Channel | None]:
    """Return a channel for every work, made only when there are workers; None where plans are evaluated here."""
    if fanout.place is None:
        return [None] * len(makers)
    works = [make() for make in makers]
    dispatch = Dispatch(WorkerPool(fanout.place, works, fanout.options), journal)
    return [Channel(dispatch, work.key, fanout.after_s) for work in works]
