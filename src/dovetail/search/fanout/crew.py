"""The crew: tasks under way, sent again when a worker dies, given up when one takes too long."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass

from dovetail.errors import SearchError
from dovetail.search.fanout.contained import run_contained
from dovetail.search.fanout.places import Place
from dovetail.search.fanout.task import Task, Work, run_task
from dovetail.search.journal import Scores

_DEATHS = 1
"""Workers that may die under a task among others; then it is tried alone."""

_KILLED = "KilledWorker"
"""The name of what Dask raises when several workers have died under a task."""


_GRACE_S = 10.0
"""A cluster's worker ends what takes too long by itself; this long after that it is given up from here."""

_AGAIN = "The same command goes on where this one was."


@dataclass(frozen=True, slots=True)
class CrewOptions:
    """Bound one evaluation in time, and say how often one that cannot be made is tried again."""

    timeout_s: float | None = None
    retries: int = 0


@dataclass(slots=True)
class _Flight:
    task: Task
    future: Future[Scores | None]
    since: float
    deaths: int = 0
    tries: int = 1
    loaded: bool = False
    turn: int = 0


Landed = tuple[Task, Scores, int]
"""A task that has ended, with its scores and nanoseconds."""


class Crew:
    """Keep tasks under way on one place. Not for several threads."""

    def __init__(self, place: Place, works: Iterable[Work], options: CrewOptions | None = None) -> None:
        self._place = place
        self._works: Mapping[str, Work] = {work.key: work for work in works}
        self._options = options or CrewOptions()
        self._executor: Executor = place.make()
        self._flights: dict[Task, _Flight] = {}
        self._suspects: list[_Flight] = []
        self._sent = 0
        self.events: list[str] = []
        """What went wrong on the way, in words."""

    @property
    def width(self) -> int:
        """Return how many tasks run at once."""
        return self._place.width

    @property
    def under_way(self) -> tuple[Task, ...]:
        """Return the tasks that have not ended."""
        return (*self._flights, *(flight.task for flight in self._suspects))

    def submit(self, task: Task) -> bool:
        """Start a task unless it is under way; tell whether it was started."""
        if task in self.under_way:
            return False
        self._flights[task] = _Flight(task, Future(), time.monotonic())
        self._send(self._flights[task])
        return True

    def land(self) -> list[Landed]:
        """Wait until something happens; return the tasks that have ended."""
        if not self._flights and self._suspects:
            # With nothing beside it: when a worker dies now, it is by this task.
            flight = self._suspects.pop(0)
            self._flights[flight.task] = flight
            self._send(flight)
        return self._collect(self._patience())

    def landed_already(self) -> list[Landed]:
        """Return the tasks that have ended by now, without waiting."""
        return self._collect(0.0)

    def close(self) -> None:
        """Give up what is under way and let the workers go."""
        for flight in self._flights.values():
            flight.future.cancel()
        if self._flights and self._place.kill is not None:
            self._place.kill(self._executor)
        self._place.stop(self._executor)
        self._place.close()

    def _send(self, flight: _Flight) -> None:
        work = self._works[flight.task.key] if flight.loaded else None
        flight.since = time.monotonic()
        self._sent += 1
        flight.turn = self._sent
        try:
            flight.future = self._submit(flight.task, work)
        except BrokenExecutor as error:
            flight.future = Future()
            flight.future.set_exception(error)

    def _submit(self, task: Task, work: Work | None) -> Future[Scores | None]:
        limit = self._options.timeout_s
        if limit is None or self._place.kill is not None:
            return self._executor.submit(run_task, task, work)
        # Nobody can end the workers of others: they contain what they run.
        return self._executor.submit(run_contained, task, work, limit)

    def _collect(self, patience_s: float | None) -> list[Landed]:
        futures = [flight.future for flight in self._flights.values()]
        if not futures:
            return []
        done, _ = wait(futures, patience_s, return_when=FIRST_COMPLETED)
        ended = [flight for flight in self._flights.values() if flight.future in done]
        if any(flight.future.cancelled() for flight in ended):
            raise SearchError(f"{self._place.name}: is gone, and the evaluations under way with it.", hint=_AGAIN)
        broken = [flight for flight in ended if isinstance(flight.future.exception(), BrokenExecutor)]
        landed = [item for flight in ended if flight not in broken and (item := self._take(flight)) is not None]
        if broken:
            landed += self._bury(str(broken[0].future.exception()))
        return landed + self._overdue()

    def _take(self, flight: _Flight) -> Landed | None:
        error = flight.future.exception()
        if error is None:
            scores = flight.future.result()
            if scores is not None:
                return self._land(flight, scores)
            flight.loaded = True
            self._send(flight)
            return None
        if type(error).__name__ == _KILLED:
            self.events.append(f"workers died: {str(error)[:80]}")
            return self._land(flight, _failure("every worker that tried it died"))
        raise SearchError(
            f"{self._place.name}: a worker cannot do its task: {type(error).__name__}: {str(error)[:160]}.",
            hint="Every worker needs the same version of Dovetail and of its backends.",
        ) from error

    def _bury(self, reason: str) -> list[Landed]:
        """Make the executor again after a worker died, and send again what was under way."""
        flights = list(self._flights.values())
        self.events.append(f"a worker died with {len(flights)} evaluations under way: {reason[:80]}")
        self._renew()
        landed: list[Landed | None] = []
        for flight in flights:
            flight.deaths += 1
            if flight.deaths <= _DEATHS:
                self._send(flight)
            elif len(flights) > 1:
                del self._flights[flight.task]
                self._suspects.append(flight)
            else:
                landed.append(self._land(flight, _failure("the process that ran it died")))
        return [item for item in landed if item is not None]

    def _renew(self) -> None:
        for flight in self._flights.values():
            flight.loaded = False
        self._place.stop(self._executor)
        self._executor = self._place.make()

    def _overdue(self) -> list[Landed]:
        limit = self._options.timeout_s
        if limit is None:
            return []
        allowed = limit if self._place.kill is not None else 2 * limit + _GRACE_S
        now = time.monotonic()
        begun = sorted((item for item in self._flights.values() if item.future.running()), key=lambda item: item.turn)
        # A pool calls one more task running than it has workers: that one still waits in its queue.
        waiting = {flight.task for flight in begun[self._place.width :]}
        for flight in self._flights.values():
            if flight.task in waiting or not (flight.future.running() or flight.future.done()):
                flight.since = now
        late = [flight for flight in self._flights.values() if now - flight.since > allowed]
        if not late:
            return []
        others = [flight for flight in self._flights.values() if flight not in late]
        if self._place.kill is not None:
            self._place.kill(self._executor)
            self._renew()
            for flight in others:
                self._send(flight)
        else:
            for flight in late:
                flight.future.cancel()
        landed = [self._land(flight, _failure(f"took longer than {limit:g} s")) for flight in late]
        return [item for item in landed if item is not None]

    def _patience(self) -> float | None:
        return None if self._options.timeout_s is None else min(0.5, self._options.timeout_s / 4)

    def _land(self, flight: _Flight, scores: Scores) -> Landed | None:
        if scores.failure:
            self.events.append(f"try {flight.tries} of plan cannot be tested: {scores.failure[:120]}")
            if flight.tries <= self._options.retries:
                flight.tries += 1
                self._send(flight)
                return None
        del self._flights[flight.task]
        return flight.task, scores, int((time.monotonic() - flight.since) * 1e9)


def _failure(text: str) -> Scores:
    return Scores(float("nan"), None, text)
