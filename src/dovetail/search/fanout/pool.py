"""The pool: tasks under way, sent again when a worker dies, given up when one takes too long."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass

from dovetail.errors import SearchError
from dovetail.search.fanout.contained import run_contained
from dovetail.search.fanout.places import Place
from dovetail.search.fanout.task import Task, Work, run_task
from dovetail.search.trial import Scores

_DEATHS = 1
"""Workers that may die under a task among others; then it is tried alone."""

_KILLED = "KilledWorker"
"""The name of what Dask raises when several workers have died under a task."""

_ALL_DIED = "every worker that tried it died"

_GRACE_S = 10.0
"""A cluster's worker ends what takes too long by itself; this long after that it is given up from here."""

_AGAIN = "The same command goes on where this one was."


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How long one evaluation may take, and how often one that cannot be made is tried again."""

    timeout_s: float | None = None
    retries: int = 0


@dataclass(slots=True)
class _Running:
    task: Task
    future: Future[Scores | None]
    since: float
    deaths: int = 0
    tries: int = 1
    needs_work: bool = False
    turn: int = 0
    here: bool = False
    """Whether a child of this process runs it, after workers died under it."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A task that has ended."""

    task: Task
    scores: Scores
    elapsed_ns: int


class WorkerPool:
    """Tasks under way on one place. Not for several threads."""

    def __init__(self, place: Place, works: Iterable[Work], options: PoolOptions | None = None) -> None:
        self._place = place
        self._works: Mapping[str, Work] = {work.key: work for work in works}
        self._options = options or PoolOptions()
        self._executor: Executor = place.make()
        self._running: dict[Task, _Running] = {}
        self._isolated: list[_Running] = []
        """Tasks under which workers died: each is tried again alone."""
        self._last: Executor | None = None
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
        return (*self._running, *(run.task for run in self._isolated))

    def submit(self, task: Task) -> bool:
        """Start a task unless it is under way; tell whether it was started."""
        if task in self.under_way:
            return False
        self._running[task] = _Running(task, Future(), time.monotonic())
        self._send(self._running[task])
        return True

    def wait(self) -> list[Finished]:
        """Wait until something happens; return the tasks that have ended."""
        if not self._running and self._isolated:
            # With nothing beside it: when a worker dies now, it is by this task.
            run = self._isolated.pop(0)
            self._running[run.task] = run
            self._send(run)
        limit = self._options.timeout_s
        return self._collect(None if limit is None else min(0.5, limit / 4))

    def poll(self) -> list[Finished]:
        """Return the tasks that have ended by now, without waiting."""
        return self._collect(0.0)

    def close(self) -> None:
        """Give up what is under way and let the workers go."""
        for run in self._running.values():
            run.future.cancel()
        if self._running and self._place.kill is not None:
            self._place.kill(self._executor)
        self._place.stop(self._executor)
        if self._last is not None:
            self._last.shutdown(False, cancel_futures=True)
        self._place.close()

    def _send(self, run: _Running) -> None:
        work = self._works[run.task.key] if run.needs_work else None
        run.since = time.monotonic()
        self._sent += 1
        run.turn = self._sent
        try:
            run.future = self._submit(run, work)
        except BrokenExecutor as error:
            run.future = Future()
            run.future.set_exception(error)

    def _submit(self, run: _Running, work: Work | None) -> Future[Scores | None]:
        limit = self._options.timeout_s
        if run.here and self._last is not None:
            return self._last.submit(run_contained, run.task, work, limit)
        if limit is None or self._place.kill is not None:
            return self._executor.submit(run_task, run.task, work)
        # Nobody can end the workers of others: they contain what they run.
        return self._executor.submit(run_contained, run.task, work, limit)

    def _collect(self, patience_s: float | None) -> list[Finished]:
        futures = [run.future for run in self._running.values()]
        if not futures:
            return []
        done, _ = wait(futures, patience_s, return_when=FIRST_COMPLETED)
        ended = [run for run in self._running.values() if run.future in done]
        if any(run.future.cancelled() for run in ended):
            raise SearchError(f"{self._place.name}: is gone, and the evaluations under way with it.", hint=_AGAIN)
        broken = [run for run in ended if isinstance(run.future.exception(), BrokenExecutor)]
        finished = [item for run in ended if run not in broken and (item := self._take(run)) is not None]
        if broken:
            finished += self._replace_workers(str(broken[0].future.exception()))
        return finished + self._end_overdue()

    def _take(self, run: _Running) -> Finished | None:
        error = run.future.exception()
        if error is None:
            scores = run.future.result()
            if scores is not None:
                return self._finish(run, scores)
            run.needs_work = True
            self._send(run)
            return None
        if type(error).__name__ == _KILLED:
            self.events.append(f"workers died: {str(error)[:80]}")
            return self._suspected(run)
        if run.here and not isinstance(error, MemoryError):
            self.events.append(f"nor can it be run here: {type(error).__name__}: {str(error)[:120]}")
            return self._finish(run, Scores.failed(_ALL_DIED))
        raise SearchError(
            f"{self._place.name}: a worker cannot do its task: {type(error).__name__}: {str(error)[:160]}.",
            hint="Every worker needs the same version of Dovetail and of its backends.",
        ) from error

    def _suspected(self, run: _Running) -> Finished | None:
        """Try a task alone that Dask gave up; where workers die under it with none beside, leave it to a child of here.

        Dask counts a worker's death against all tasks that wait there; and where workers die of something else all the
        time, a long evaluation outlives every one of them.
        """
        if run.deaths > _DEATHS or len(self._running) == 1:
            if self._place.last is None:
                return self._finish(run, Scores.failed(_ALL_DIED))
            self.events.append(
                f"every worker of {self._place.name} that tried a plan died: a child of this process does"
            )
            self._last = self._last or self._place.last()
            run.here, run.needs_work = True, False
            self._send(run)
            return None
        run.deaths = _DEATHS + 1
        del self._running[run.task]
        self._isolated.append(run)
        return None

    def _replace_workers(self, reason: str) -> list[Finished]:
        """Make the executor again after a worker died, and send again what was under way."""
        runs = list(self._running.values())
        self.events.append(f"a worker died with {len(runs)} evaluations under way: {reason[:80]}")
        self._renew()
        finished: list[Finished | None] = []
        for run in runs:
            run.deaths += 1
            if run.deaths <= _DEATHS:
                self._send(run)
            elif len(runs) > 1:
                del self._running[run.task]
                self._isolated.append(run)
            else:
                finished.append(self._finish(run, Scores.failed("the process that ran it died")))
        return [item for item in finished if item is not None]

    def _renew(self) -> None:
        for run in self._running.values():
            run.needs_work = False
        self._place.stop(self._executor)
        self._executor = self._place.make()

    def _end_overdue(self) -> list[Finished]:
        limit = self._options.timeout_s
        if limit is None:
            return []
        allowed = limit if self._place.kill is not None else 2 * limit + _GRACE_S
        now = time.monotonic()
        begun = sorted((run for run in self._running.values() if run.future.running()), key=lambda run: run.turn)
        # A pool calls one more task running than it has workers: that one still waits in its queue.
        waiting = {run.task for run in begun[self._place.width :]}
        for run in self._running.values():
            if run.task in waiting or not (run.future.running() or run.future.done()):
                run.since = now
        late = [run for run in self._running.values() if now - run.since > allowed]
        if not late:
            return []
        others = [run for run in self._running.values() if run not in late]
        if self._place.kill is not None:
            self._place.kill(self._executor)
            self._renew()
            for run in others:
                self._send(run)
        else:
            for run in late:
                run.future.cancel()
        finished = [self._finish(run, Scores.failed(f"took longer than {limit:g} s")) for run in late]
        return [item for item in finished if item is not None]

    def _finish(self, run: _Running, scores: Scores) -> Finished | None:
        """Return a task with its scores, or None where it is tried again."""
        if scores.failure:
            self.events.append(f"try {run.tries} of plan cannot be tested: {scores.failure[:120]}")
            if run.tries <= self._options.retries:
                run.tries += 1
                self._send(run)
                return None
        del self._running[run.task]
        return Finished(run.task, scores, int((time.monotonic() - run.since) * 1e9))
