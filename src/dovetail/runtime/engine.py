"""Workers, one for each device: branches of one request overlap, and requests follow each other through the stages."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dovetail.runtime.lane import Request
from dovetail.runtime.stage import Flow, Stage

Work = Callable[[Stage, Request], None]


@dataclass(slots=True)
class StageJob:
    """A request on its way; `finish` is called once, with the error that stopped it or with None."""

    number: int
    request: Request
    missing: list[int]
    left: int
    finish: Callable[[BaseException | None], None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: bool = False


class StageScheduler:
    """Run the stages of many requests, each stage on its device's thread, older requests first."""

    def __init__(self, stages: Sequence[Stage], flow: Flow, work: Work) -> None:
        self._stages = tuple(stages)
        self._flow = flow
        self._work = work
        self._count = 0
        self._workers = {stage.device: _Worker(self._step, stage.device) for stage in stages}

    def submit(self, request: Request, finish: Callable[[BaseException | None], None]) -> None:
        """Start a request; `finish` is called on a worker's thread."""
        job = StageJob(self._count, request, list(self._flow.needs), len(self._stages), finish)
        self._count += 1
        if not self._stages:
            finish(None)
        for stage, needs in zip(self._stages, self._flow.needs, strict=True):
            if needs == 0:
                self._workers[stage.device].push(job, stage)

    def close(self) -> None:
        """End the workers after the work that they have."""
        for worker in self._workers.values():
            worker.close()

    def _step(self, job: StageJob, stage: Stage) -> None:
        if job.stopped:
            return
        try:
            self._work(stage, job.request)
        except BaseException as error:
            # Whatever it is, someone waits for this request on another thread.
            with job.lock:
                first, job.stopped = not job.stopped, True
            if first:
                job.finish(error)
            return
        ready: list[int] = []
        with job.lock:
            job.left -= 1
            for follower in self._flow.followers[stage.index]:
                job.missing[follower] -= 1
                if job.missing[follower] == 0:
                    ready.append(follower)
            done = job.left == 0 and not job.stopped
        for index in ready:
            self._workers[self._stages[index].device].push(job, self._stages[index])
        if done:
            job.finish(None)


class _Worker:
    """A thread with a heap of work: the oldest request first, and its earliest stage."""

    def __init__(self, step: Callable[[StageJob, Stage], None], name: str) -> None:
        self._step = step
        self._heap: list[tuple[int, int, StageJob, Stage]] = []
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name=f"dovetail {name}", daemon=True)
        self._thread.start()

    def push(self, job: StageJob, stage: Stage) -> None:
        with self._wake:
            heapq.heappush(self._heap, (job.number, stage.index, job, stage))
            self._wake.notify()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _loop(self) -> None:
        while True:
            with self._wake:
                while not self._heap:
                    if self._closed:
                        return
                    self._wake.wait()
                _, _, job, stage = heapq.heappop(self._heap)
            self._step(job, stage)
