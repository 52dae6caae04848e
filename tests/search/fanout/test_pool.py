"""The pool of workers, on an executor whose tasks end when the test says so: every way that a task can end."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from dovetail.errors import SearchError
from dovetail.search.fanout import Place, PoolOptions
from dovetail.search.fanout.contained import run_contained
from dovetail.search.fanout.pool import WorkerPool
from dovetail.search.fanout.task import Measure, Task, run_task
from dovetail.search.trial import Scores

GOOD = Scores(0.5, None)


def _task(number: int) -> Task:
    return Task("work", Measure.SCORE, f"plan {number}", (number,))


@dataclass
class Sent:
    """One task that an executor was given."""

    call: Any
    task: Task
    rest: tuple[Any, ...]
    future: Future[Scores | None] = field(default_factory=Future)


class ByHand(Executor):
    """An executor whose futures the test settles; one that is `broken` takes nothing."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.broken = False

    def submit(self, fn, /, *args, **kwargs):
        if self.broken:
            raise BrokenExecutor("broken before")
        self.sent.append(Sent(fn, args[0], args[1:]))
        return self.sent[-1].future


@dataclass
class Bench:
    """A pool on executors that are settled by hand, with what was done to them."""

    options: PoolOptions = PoolOptions()  # noqa: RUF009
    width: int = 2
    ours: bool = True
    made: list[ByHand] = field(default_factory=list)
    killed: list[Executor] = field(default_factory=list)
    stopped: list[Executor] = field(default_factory=list)
    closed: int = 0
    last: ByHand | None = None

    def pool(self) -> WorkerPool:
        def make() -> ByHand:
            self.made.append(ByHand())
            return self.made[-1]

        def close() -> None:
            self.closed += 1

        kill = self.killed.append if self.ours else None
        last = self.last
        refuge = None if last is None else lambda: last
        place = Place("by hand", self.width, make, kill, self.stopped.append, close, refuge)
        return WorkerPool(place, [SimpleNamespace(key="work")], self.options)  # type: ignore[list-item]


def test_a_task_is_sent_once_and_ends_with_its_scores() -> None:
    bench = Bench()
    pool = bench.pool()
    assert pool.poll() == []
    assert pool.submit(_task(1))
    assert not pool.submit(_task(1))
    assert pool.submit(_task(2))
    assert (pool.width, pool.under_way) == (2, (_task(1), _task(2)))
    (executor,) = bench.made
    assert [(item.call, item.task, item.rest) for item in executor.sent] == [
        (run_task, _task(1), (None,)),
        (run_task, _task(2), (None,)),
    ]
    executor.sent[1].future.set_result(GOOD)
    (ended,) = pool.wait()
    assert (ended.task, ended.scores) == (_task(2), GOOD)
    assert ended.elapsed_ns > 0
    assert pool.under_way == (_task(1),)
    assert pool.events == []
    with pytest.raises(AttributeError):
        ended.task = _task(1)  # type: ignore[misc]


def test_a_worker_without_the_work_is_sent_it() -> None:
    bench = Bench()
    pool = bench.pool()
    pool.submit(_task(1))
    (executor,) = bench.made
    executor.sent[0].future.set_result(None)
    assert pool.wait() == []
    first, second = executor.sent
    assert first.rest == (None,)
    assert second.rest[0].key == "work"
    assert pool.under_way == (_task(1),)
    second.future.set_result(GOOD)
    assert [item.scores for item in pool.wait()] == [GOOD]


@pytest.mark.parametrize("retries", [0, 2])
def test_what_cannot_be_tested_is_tried_again(retries: int) -> None:
    bench = Bench(PoolOptions(retries=retries))
    pool = bench.pool()
    pool.submit(_task(1))
    (executor,) = bench.made
    for number in range(retries):
        executor.sent[number].future.set_result(Scores.failed("no memory"))
        assert pool.wait() == []
    assert len(executor.sent) == retries + 1
    executor.sent[-1].future.set_result(Scores.failed("no memory"))
    (ended,) = pool.wait()
    assert ended.scores.failure == "no memory"
    assert pool.under_way == ()
    assert pool.events == [f"try {number + 1} of plan cannot be tested: no memory" for number in range(retries + 1)]


class Clock:
    """The time that a test says it is."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("dovetail.search.fanout.pool.time", clock)
    return clock


def test_a_task_took_from_when_it_was_sent_to_when_it_was_seen_to_have_ended(clock: Clock) -> None:
    bench = Bench()
    pool = bench.pool()
    pool.submit(_task(1))
    clock.now_s += 2.5
    bench.made[0].sent[0].future.set_result(GOOD)
    assert [item.elapsed_ns for item in pool.wait()] == [2_500_000_000]


@pytest.mark.parametrize(("ours", "allowed_s"), [(True, 3.0), (False, 16.0)])
def test_workers_of_others_have_twice_the_time_and_some_to_end_it_themselves(
    ours: bool, allowed_s: float, clock: Clock
) -> None:
    cancelled: list[Task] = []

    class Endless(Future[Scores | None]):
        def cancel(self) -> bool:
            cancelled.append(_task(1))
            return super().cancel()

    bench = Bench(PoolOptions(timeout_s=3.0), ours=ours)
    pool = bench.pool()
    pool.submit(_task(1))
    endless = Endless()
    endless.set_running_or_notify_cancel()
    pool._running[_task(1)].future = endless
    clock.now_s += allowed_s
    assert pool.poll() == []
    clock.now_s += 0.01
    (late,) = pool.poll()
    assert late.scores.failure == "took longer than 3 s"
    assert cancelled == ([] if ours else [_task(1)])
    assert bench.killed == (bench.made[:1] if ours else [])


def test_an_idle_pool_waits_for_nothing() -> None:
    pool = Bench().pool()
    assert pool.wait() == pool.poll() == []


def test_what_died_with_others_is_tried_alone_only_when_nothing_else_is_under_way() -> None:
    bench = Bench()
    pool = bench.pool()
    for number in (1, 2):
        pool.submit(_task(number))
    for executor in range(2):
        bench.made[executor].sent[0].future.set_exception(BrokenExecutor("killed"))
        pool.wait()
    pool.submit(_task(3))
    (third,) = bench.made[2].sent
    third.future.set_result(GOOD)
    assert [item.task for item in pool.wait()] == [_task(3)]
    assert bench.made[2].sent == [third]
    pool.poll()
    assert bench.made[2].sent == [third]


@pytest.mark.parametrize(("limit", "patience"), [(None, None), (1.0, 0.25), (2.0, 0.5), (1000.0, 0.5)])
def test_a_wait_is_short_enough_to_see_in_time_what_takes_too_long(
    limit: float | None, patience: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float | None] = []

    def waited(futures: list[Future[Any]], timeout: float | None, return_when: str) -> Any:
        asked.append(timeout)
        return wait(futures, timeout, return_when)

    monkeypatch.setattr("dovetail.search.fanout.pool.wait", waited)
    bench = Bench(PoolOptions(timeout_s=limit))
    pool = bench.pool()
    for number, collect in ((0, pool.wait), (1, pool.poll)):
        pool.submit(_task(number))
        bench.made[0].sent[number].future.set_result(GOOD)
        assert [item.task for item in collect()] == [_task(number)]
    assert asked == [patience, 0.0]


@pytest.mark.parametrize(("limit", "ours"), [(None, True), (None, False), (9.0, True), (9.0, False)])
def test_only_what_has_a_limit_and_is_not_ours_to_kill_is_contained(limit: float | None, ours: bool) -> None:
    bench = Bench(PoolOptions(timeout_s=limit), ours=ours)
    bench.pool().submit(_task(1))
    (sent,) = bench.made[0].sent
    contained = limit is not None and not ours
    assert (sent.call, sent.rest) == ((run_contained, (None, limit)) if contained else (run_task, (None,)))


def test_what_was_sent_again_waits_behind_what_was_sent_before() -> None:
    bench = Bench(PoolOptions(timeout_s=1e-9, retries=1), width=1)
    pool = bench.pool()
    pool.submit(_task(1))
    bench.made[0].sent[0].future.set_result(Scores.failed("no memory"))
    pool.submit(_task(2))
    assert pool.poll() == []
    for item in bench.made[0].sent[1:]:
        item.future.set_running_or_notify_cancel()
    assert pool.poll() == []
    assert pool.events[1:] == ["try 1 of plan cannot be tested: took longer than 1e-09 s"]
    assert [item.task for item in bench.made[0].sent] == [_task(1), _task(2), _task(1)]


def test_what_is_said_of_a_failure_is_cut_short() -> None:
    bench = Bench()
    pool = bench.pool()
    pool.submit(_task(1))
    bench.made[0].sent[0].future.set_result(Scores.failed("x" * 121))
    (ended,) = pool.wait()
    assert ended.scores.failure == "x" * 121
    assert pool.events == ["try 1 of plan cannot be tested: " + "x" * 120]


def test_what_is_said_of_a_death_is_cut_short() -> None:
    bench = Bench()
    pool = bench.pool()
    pool.submit(_task(1))
    bench.made[0].sent[0].future.set_exception(BrokenExecutor("x" * 81))
    pool.wait()
    assert pool.events == ["a worker died with 1 evaluations under way: " + "x" * 80]
    bench.made[1].sent[0].future.set_exception(KilledWorker("y" * 81))
    pool.wait()
    assert pool.events[1] == "workers died: " + "y" * 80
    pool.submit(_task(1))
    bench.made[1].sent[1].future.set_exception(ImportError("z" * 161))
    with pytest.raises(SearchError) as caught:
        pool.wait()
    assert caught.value.message == "by hand: a worker cannot do its task: ImportError: " + "z" * 160 + "."


def test_tasks_are_sent_again_when_a_worker_dies_then_alone_then_given_up() -> None:
    bench = Bench()
    pool = bench.pool()
    for number in (1, 2):
        pool.submit(_task(number))
    for executor in range(2):
        bench.made[executor].sent[0].future.set_exception(BrokenExecutor("killed"))
        assert pool.wait() == []
        assert bench.stopped == bench.made[: executor + 1]
        assert pool.events[executor] == "a worker died with 2 evaluations under way: killed"
    # Both were there twice when a worker died: each runs alone now, and what dies then is by itself.
    assert bench.made[2].sent == []
    assert pool.under_way == (_task(1), _task(2))
    bench.made[2].broken = True
    (ended,) = pool.wait()
    assert ended.task == _task(1)
    assert ended.scores.failure == "the process that ran it died"
    assert pool.under_way == (_task(2),)
    assert len(bench.made) == 4
    assert bench.made[3].sent == []


def test_work_is_sent_again_to_new_workers() -> None:
    bench = Bench()
    pool = bench.pool()
    pool.submit(_task(1))
    bench.made[0].sent[0].future.set_result(None)
    assert pool.wait() == []
    bench.made[0].sent[1].future.set_exception(BrokenExecutor("killed"))
    assert pool.wait() == []
    assert bench.made[1].sent[0].rest == (None,)


def test_what_ended_beside_a_death_counts() -> None:
    bench = Bench()
    pool = bench.pool()
    for number in (1, 2):
        pool.submit(_task(number))
    bench.made[0].sent[0].future.set_result(GOOD)
    bench.made[0].sent[1].future.set_exception(BrokenExecutor("killed"))
    assert [item.task for item in pool.wait()] == [_task(1)]
    assert pool.under_way == (_task(2),)


def test_what_takes_too_long_is_killed_and_the_others_go_on() -> None:
    bench = Bench(PoolOptions(timeout_s=1e-9))
    pool = bench.pool()
    for number in (1, 2):
        pool.submit(_task(number))
    slow, queued = bench.made[0].sent
    slow.future.set_running_or_notify_cancel()
    (ended,) = pool.wait()
    assert ended.task == _task(1)
    assert ended.scores.failure == "took longer than 1e-09 s"
    assert bench.killed == bench.stopped == bench.made[:1]
    # What has not begun has not taken long.
    assert not queued.future.done()
    assert [item.task for item in bench.made[1].sent] == [_task(2)]
    assert pool.under_way == (_task(2),)


def test_no_more_tasks_are_late_than_there_are_workers() -> None:
    bench = Bench(PoolOptions(timeout_s=1e-9), width=1)
    pool = bench.pool()
    for number in (1, 2):
        pool.submit(_task(number))
    for item in bench.made[0].sent:
        item.future.set_running_or_notify_cancel()
    assert [item.task for item in pool.wait()] == [_task(1)]
    assert pool.under_way == (_task(2),)


def test_workers_of_others_contain_what_they_run_and_have_time_for_it() -> None:
    bench = Bench(PoolOptions(timeout_s=1e-9), ours=False)
    pool = bench.pool()
    pool.submit(_task(1))
    (sent,) = bench.made[0].sent
    assert (sent.call, sent.rest) == (run_contained, (None, 1e-9))
    sent.future.set_running_or_notify_cancel()
    assert pool.wait() == []
    assert pool.under_way == (_task(1),)
    sent.future.set_result(GOOD)
    assert [item.scores for item in pool.wait()] == [GOOD]


class KilledWorker(Exception):
    """What Dask raises when several workers have died under a task, by its name."""


def test_what_kills_every_worker_of_a_cluster_is_given_up() -> None:
    bench = Bench(ours=False)
    pool = bench.pool()
    pool.submit(_task(1))
    bench.made[0].sent[0].future.set_exception(KilledWorker("four of them"))
    (ended,) = pool.wait()
    assert ended.scores.failure == "every worker that tried it died"
    assert pool.events[0] == "workers died: four of them"


def left_to_a_child(bench: Bench) -> tuple[WorkerPool, ByHand]:
    """Return a pool whose one task is with a child of this process, and that child's executor."""
    pool = bench.pool()
    assert bench.last is not None
    pool.submit(_task(1))
    bench.made[0].sent[0].future.set_exception(KilledWorker("four of them"))
    assert pool.wait() == []
    assert pool.under_way == (_task(1),)
    return pool, bench.last


def test_what_every_worker_of_a_cluster_died_under_is_left_to_a_child_of_this_process() -> None:
    pool, last = left_to_a_child(Bench(ours=False, last=ByHand()))
    last.sent[0].future.set_result(None)
    assert pool.wait() == []
    (_, sent) = last.sent
    assert (sent.call, sent.task, sent.rest[1]) == (run_contained, _task(1), None)
    assert sent.rest[0].key == "work"
    sent.future.set_result(GOOD)
    assert [item.scores for item in pool.wait()] == [GOOD]
    assert pool.events[1] == "every worker of by hand that tried a plan died: a child of this process does"


@pytest.mark.parametrize("settle", ["died", "raised"])
def test_what_dies_or_fails_here_too_is_given_up(settle: str) -> None:
    pool, last = left_to_a_child(Bench(ours=False, last=ByHand()))
    (sent,) = last.sent
    if settle == "died":
        sent.future.set_result(Scores.failed("the process that ran it died"))
    else:
        sent.future.set_exception(ImportError("no module named board"))
    (ended,) = pool.wait()
    assert ended.scores.failure.endswith("died")
    assert ("board" in pool.events[2]) == (settle == "raised")


def test_too_little_memory_here_is_no_verdict_on_a_plan() -> None:
    pool, last = left_to_a_child(Bench(ours=False, last=ByHand()))
    last.sent[0].future.set_exception(MemoryError("of 4 GB"))
    with pytest.raises(SearchError, match="MemoryError: of 4 GB"):
        pool.wait()


def test_what_a_cluster_gave_up_among_others_is_tried_alone_before_it_is_blamed() -> None:
    bench = Bench(PoolOptions(timeout_s=1000.0), ours=False)
    pool = bench.pool()
    for number in (1, 2, 3):
        pool.submit(_task(number))
    sent = bench.made[0].sent
    for neighbour in sent[:2]:
        neighbour.future.set_exception(KilledWorker("of a neighbour"))
    assert pool.wait() == []
    assert pool.under_way == (_task(3), _task(1), _task(2))
    sent[2].future.set_result(GOOD)
    assert [item.scores for item in pool.wait()] == [GOOD]
    assert pool.wait() == []
    assert [item.task for item in sent[3:]] == [_task(1)]
    sent[3].future.set_exception(KilledWorker("with nothing beside"))
    assert [item.scores.failure for item in pool.wait()] == ["every worker that tried it died"]
    assert pool.wait() == []
    assert [item.task for item in sent[4:]] == [_task(2)]
    sent[4].future.set_result(GOOD)
    assert [(item.task, item.scores) for item in pool.wait()] == [(_task(2), GOOD)]


def test_a_worker_that_is_not_able_and_a_place_that_is_gone_end_the_search() -> None:
    bench = Bench()
    pool = bench.pool()
    pool.submit(_task(1))
    bench.made[0].sent[0].future.set_exception(ImportError("no module named onnxruntime"))
    with pytest.raises(SearchError, match="by hand: a worker cannot do its task: ImportError: no module"):
        pool.wait()
    gone = Bench()
    pool = gone.pool()
    pool.submit(_task(1))
    gone.made[0].sent[0].future.cancel()
    gone.made[0].sent[0].future.set_running_or_notify_cancel()
    with pytest.raises(SearchError, match="by hand: is gone, and the evaluations under way with it"):
        pool.wait()


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("busy", [True, False])
def test_closing_gives_up_what_is_under_way(ours: bool, busy: bool) -> None:
    bench = Bench(ours=ours)
    pool = bench.pool()
    if busy:
        pool.submit(_task(1))
    pool.close()
    assert bench.killed == (bench.made if ours and busy else [])
    assert bench.stopped == bench.made
    assert bench.closed == 1
    assert all(item.future.cancelled() for item in bench.made[0].sent)
