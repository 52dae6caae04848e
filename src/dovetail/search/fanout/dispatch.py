"""The desk between a search and its crew: what is wanted now, what is wanted soon, and the journal of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dovetail.plan.plan import Override, Plan
from dovetail.search.fanout.crew import Crew
from dovetail.search.fanout.task import Job, Task
from dovetail.search.journal import Journal, Scores, block_key


@dataclass(frozen=True)
class Order:
    """Ask for a measurement: `key` names the work, `kind` the measurement in the journal."""

    key: str
    kind: str
    job: Job
    plan: Plan
    indices: tuple[int, ...]

    @property
    def entry(self) -> tuple[str, str]:
        """Return the plan's digest and the block: the key in the journal."""
        return self.plan.digest, block_key(self.kind, self.indices)

    @cached_property
    def task(self) -> Task:
        """Return what a worker is asked for; why nodes are where they are does not matter there."""
        moved = {node: Override(item.placement, "") for node, item in self.plan.overrides.items()}
        bare = Plan(self.plan.graph_digest, self.plan.default, moved)
        return Task(self.key, self.job, bare.to_json(), self.indices)


class Dispatch:
    """Keep the crew busy with what is wanted, and write down what it starts and ends."""

    def __init__(self, crew: Crew, journal: Journal) -> None:
        self._crew = crew
        self._journal = journal
        self._orders: dict[Task, Order] = {}
        self._soon: list[Order] = []
        self.landed_samples = 0
        """Samples that were evaluated, whether or not the search has asked for them in the end."""

    @property
    def width(self) -> int:
        """Return how many evaluations run at once."""
        return self._crew.width

    @property
    def events(self) -> tuple[str, ...]:
        """Return what went wrong with workers, in words."""
        return tuple(self._crew.events)

    def ahead(self, orders: Sequence[Order]) -> None:
        """Say what will be wanted soon, the most likely first; what was wanted before and has not begun is dropped."""
        self._soon = list(orders)
        self._note(self._crew.landed_already())
        self._fill()

    def get(self, order: Order) -> Scores:
        """Return the scores of what is wanted now."""
        self._start(order)
        while (known := self._journal.recall(*order.entry)) is None:
            self._note(self._crew.land())
            self._fill()
        return known

    def close(self) -> None:
        """Give up what is under way."""
        self._note(self._crew.landed_already())
        self._crew.close()
        for order in self._orders.values():
            self._journal.land(*order.entry)

    def _fill(self) -> None:
        while self._soon and len(self._crew.under_way) < self._crew.width:
            order = self._soon.pop(0)
            if self._journal.recall(*order.entry) is None:
                self._start(order)

    def _start(self, order: Order) -> None:
        task = order.task
        if task not in self._orders:
            self._journal.take_off(*order.entry)
            self._orders[task] = order
            self._crew.submit(task)

    def _note(self, landed: Sequence[tuple[Task, Scores, int]]) -> None:
        for task, scores, elapsed_ns in landed:
            order = self._orders.pop(task)
            self.landed_samples += len(order.indices)
            self._journal.record(*order.entry, scores, elapsed_ns)
