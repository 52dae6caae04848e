"""A served model: a bounded queue before a session."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dovetail.errors import DovetailError
from dovetail.ir.dtypes import AnyArray
from dovetail.oip.failures import Reply, RequestRefused
from dovetail.runtime.checks import check_inputs
from dovetail.runtime.record import Run
from dovetail.runtime.session import Session
from dovetail.serve.joining import RowShapes, join, row_shapes, rows_of, split, why_not_joined
from dovetail.serve.limits import ServeLimits
from dovetail.serve.statistics import RequestSplit, ServedStatistics

_Result = TypeVar("_Result")
_LOG = logging.getLogger("dovetail.serve")
_MOST_THREADS = 4
_QUICK_NS = 1_000_000
"""What a request may take to be served on the loop itself: going to a thread and back takes half as long."""
_WEIGHT = 0.2
"""Of the last request in the running mean of what requests take."""


@dataclass(frozen=True, slots=True)
class Feed:
    """What a request asks to be run."""

    inputs: Mapping[str, AnyArray]
    outputs: Sequence[str]
    """The tensors it wants back: outputs of the model, or inner ones."""
    alone: bool = False
    """It wants to be run by itself: it asks for times."""


@dataclass(slots=True)
class _Job:
    """A request to run the model, and what is known of it so far."""

    decode: Callable[[], Feed]
    encode: Callable[[Run, Feed], Any]
    feed: Feed | None = None
    input_ns: int = 0

    def decoded(self) -> Feed:
        """Return what is asked for; it is read once."""
        if self.feed is None:
            start = time.perf_counter_ns()
            self.feed = self.decode()
            self.input_ns = time.perf_counter_ns() - start
        return self.feed


@dataclass(slots=True)
class _Ticket:
    """A request in the queue; `act` gets the time it waited and returns the answer."""

    act: Callable[[int], object]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[object]
    expires: float
    job: _Job | None = None
    """Where it may be joined with others."""
    entered_ns: int = field(default_factory=time.perf_counter_ns)


class ServedModel:
    """A loaded bundle that serves requests in the order in which they come."""

    def __init__(self, name: str, session: Session, digest: str, limits: ServeLimits) -> None:
        self.name = name
        self.session = session
        self.bundle = session.bundle
        self.types = session.bundle.tensors
        self.digest = digest
        self.statistics = ServedStatistics()
        self._limits = limits
        self.why_alone = "it is not asked for" if limits.batch_rows < 2 else why_not_joined(session, limits.batch_rows)
        """Why requests are run one by one; empty where those that wait are joined."""
        self._queue: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._gathering = threading.Lock()
        self._aside: deque[_Ticket | None] = deque()
        """Taken from the queue to be joined with others, and not like them: they come next."""
        self._waiting = 0
        self._typical_ns = float("inf")
        # One thread a device keeps all of them busy, one more reads and writes messages meanwhile.
        count = min(_MOST_THREADS, len(set(session.devices)) + 1)
        self._threads = [
            threading.Thread(target=self._serve, name=f"dovetail {name}", daemon=True) for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Return how many requests are under way."""
        return self._waiting

    async def infer(
        self,
        decode: Callable[[], Feed],
        encode: Callable[[Run, Feed], _Result],
        within_s: float | None = None,
        *,
        light: bool = False,
    ) -> _Result:
        """Return the answer to a request to run the model; `decode` and `encode` are called on a thread of the model.

        Raises RequestRefused where the queue is full or the time is over, and what `decode` and the run raise. A
        request that is cancelled while it waits is not run. One that is `light` to decode and encode is served at once
        where nothing waits and such requests take less than a millisecond.
        """
        job = _Job(decode, encode)

        def act(queue_ns: int) -> _Result:
            feed = job.decoded()
            start = time.perf_counter_ns()
            run = self.session.run(feed.inputs, [name for name in feed.outputs if name not in self.bundle.outputs])
            infer_ns = time.perf_counter_ns() - start
            self.statistics.executed(1, job.input_ns, infer_ns)
            return self._answer(job, run, RequestSplit(queue_ns, job.input_ns, infer_ns))  # type: ignore[no-any-return]

        # A request that is to wait for others never finds them where it is served at once.
        soon = bool(self.why_alone) or not self._limits.batch_delay_s
        if light and soon and self._waiting == 0 and self._typical_ns < _QUICK_NS:
            return self._at_once(act)
        return await self.in_turn(act, within_s, None if self.why_alone else job)

    def _answer(self, job: _Job, run: Run, split: RequestSplit) -> Any:
        """Return the answer of a run, and take down where the time went."""
        start = time.perf_counter_ns()
        answer = job.encode(run, job.decoded())
        split.output_ns = time.perf_counter_ns() - start
        self.statistics.answered(split)
        took = split.input_ns + split.infer_ns + split.output_ns
        self._typical_ns = (
            took if math.isinf(self._typical_ns) else self._typical_ns + _WEIGHT * (took - self._typical_ns)
        )
        return answer

    async def in_turn(
        self, act: Callable[[int], _Result], within_s: float | None = None, job: _Job | None = None
    ) -> _Result:
        """Return what `act` gives, called in turn on a thread of the model with the nanoseconds that it waited.

        A job may be run together with others of the queue instead.
        """
        if self._waiting >= self._limits.queue:
            with self.statistics.lock:
                self.statistics.refused += 1
            raise RequestRefused(
                Reply.FULL, f"model '{self.name}' has {self._waiting} requests waiting.", hint="Try again later."
            )
        loop = asyncio.get_running_loop()
        wait_s = self._limits.queue_s if within_s is None else min(within_s, self._limits.queue_s)
        ticket = _Ticket(act, loop, loop.create_future(), time.monotonic() + wait_s, job)
        self._waiting += 1
        self._queue.put(ticket)
        try:
            return await ticket.future  # type: ignore[return-value]
        finally:
            self._waiting -= 1

    def _at_once(self, act: Callable[[int], _Result]) -> _Result:
        start = time.perf_counter_ns()
        try:
            return act(0)
        except Exception as error:
            self.statistics.failed(time.perf_counter_ns() - start)
            if isinstance(error, DovetailError):
                raise
            raise _defect(self.name, error) from error

    def close(self) -> None:
        """Serve what waits, then free the devices; called on a thread of its own."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self.session.close()

    def _serve(self) -> None:
        while group := self._next():
            if len(group) < 2 or not self._run_joined(group):
                for one in group:
                    self._finish(one, one.act)

    def _next(self) -> list[_Ticket]:
        """Return requests that are run together, or none at the end.

        One thread gathers at a time: each of several would wait for others that another one has.
        """
        with self._gathering:
            while (ticket := self._aside.popleft() if self._aside else self._queue.get()) is not None:
                if self._is_wanted(ticket):
                    return [ticket] if ticket.job is None else self._gathered(ticket, ticket.job)
        return []

    def _is_wanted(self, ticket: _Ticket) -> bool:
        """Tell whether somebody waits for a request, whose time is not over."""
        if ticket.future.cancelled():
            self._count_dropped()
            return False
        if time.monotonic() > ticket.expires:
            self._count_dropped()

            def expired(queue_ns: int) -> object:
                raise RequestRefused(Reply.EXPIRED, f"model '{self.name}': the time is over.")

            self._finish(ticket, expired)
            return False
        return True

    def _gathered(self, first: _Ticket, job: _Job) -> list[_Ticket]:
        """Return a request with those that wait, or come soon, and can be run together with it."""
        group, shapes = [first], self._shapes(first, job)
        if shapes is None or job.feed is None:
            return group
        rows, until = rows_of(job.feed.inputs), time.monotonic() + self._limits.batch_delay_s
        while rows < self._limits.batch_rows and not self._aside:
            try:
                left_s = until - time.monotonic()
                ticket = self._queue.get(timeout=left_s) if left_s > 0 else self._queue.get_nowait()
            except queue.Empty:
                break
            if ticket is None or ticket.job is None:
                self._aside.append(ticket)
                break
            if not self._is_wanted(ticket):
                continue
            fits = self._shapes(ticket, ticket.job) == shapes and ticket.job.feed is not None
            more = rows_of(ticket.job.feed.inputs) if fits and ticket.job.feed is not None else 0
            if not fits or rows + more > self._limits.batch_rows:
                self._aside.append(ticket)
                break
            group.append(ticket)
            rows += more
        return group

    def _shapes(self, ticket: _Ticket, job: _Job) -> RowShapes | None:
        """Return what a request has in common with those that it may be joined with; None where it is run alone."""
        try:
            feed = job.decoded()
            check_inputs(self.bundle.inputs, feed.inputs)
        except Exception:
            # What is wrong with it is told when its turn comes, whatever it is.
            return None
        if feed.alone or any(name not in self.bundle.outputs for name in feed.outputs):
            return None
        return row_shapes(feed.inputs)

    def _run_joined(self, group: Sequence[_Ticket]) -> bool:
        """Answer requests by one run; return False, with none of them answered, where that fails."""
        jobs = [ticket.job for ticket in group if ticket.job is not None]
        feeds = [job.decoded().inputs for job in jobs]
        start = time.perf_counter_ns()
        try:
            run = self.session.run(join(feeds))
            runs = list(split(run, [rows_of(feed) for feed in feeds]))
        except Exception as error:
            _LOG.warning("model '%s': %d requests cannot be run together: %s", self.name, len(group), error)
            return False
        infer_ns = time.perf_counter_ns() - start
        self.statistics.executed(len(group), sum(job.input_ns for job in jobs), infer_ns)
        for ticket, job, own in zip(group, jobs, runs, strict=True):

            def act(waited_ns: int, ticket: _Ticket = ticket, job: _Job = job, own: Run = own) -> object:
                # Until the run began; what was read meanwhile is counted as input.
                queue_ns = max(0, start - ticket.entered_ns - job.input_ns)
                return self._answer(job, own, RequestSplit(queue_ns, job.input_ns, infer_ns))

            self._finish(ticket, act)
        return True

    def _finish(self, ticket: _Ticket, act: Callable[[int], object]) -> None:
        """Let a peer know what `act` gives or raises."""
        answer: object = None
        error: Exception | None = None
        try:
            answer = act(time.perf_counter_ns() - ticket.entered_ns)
        except Exception as caught:
            self.statistics.failed(time.perf_counter_ns() - ticket.entered_ns)
            error = caught if isinstance(caught, DovetailError) else _defect(self.name, caught)
        # Where the loop has ended nobody waits any more.
        with contextlib.suppress(RuntimeError):
            ticket.loop.call_soon_threadsafe(_settle, ticket.future, answer, error)

    def _count_dropped(self) -> None:
        with self.statistics.lock:
            self.statistics.dropped += 1


def _settle(future: asyncio.Future[object], answer: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)


def _defect(name: str, error: Exception) -> RequestRefused:
    """Return what a peer is told of an error that should have been foreseen; the log has the rest."""
    _LOG.error("model '%s': unexpected %s", name, type(error).__name__, exc_info=error)
    return RequestRefused(
        Reply.DEFECT, f"model '{name}': unexpected {type(error).__name__}; the server's log says more."
    )
