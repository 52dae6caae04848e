"""A task in a real child process: a child without the work says so, one that takes too long or dies is gone."""

from __future__ import annotations

import operator
from functools import partial
from types import SimpleNamespace

import pytest

from dovetail.search.fanout import contained
from dovetail.search.fanout.contained import run_contained
from dovetail.search.fanout.task import Measure, Task

TASK = Task("work", Measure.SCORE, "no plan", (0,))
PATIENCE_S = 600.0


def test_a_child_answers_and_stays_until_one_takes_too_long_or_dies() -> None:
    assert run_contained(TASK, None, PATIENCE_S) is None
    child = contained._thread.process
    assert child is not None
    assert run_contained(TASK, None, PATIENCE_S) is None
    assert contained._thread.process is child
    child._process.kill()
    child._process.wait()
    died = run_contained(TASK, None, PATIENCE_S)
    assert died is not None
    assert died.failure == "the process that ran it died"
    assert contained._thread.process is None
    late = run_contained(TASK, None, 1e-3)
    assert late is not None
    assert late.failure == "took longer than 0.001 s"
    assert contained._thread.process is None


def test_what_a_task_raises_is_raised_here_and_no_verdict_on_its_plan() -> None:
    works = {
        ZeroDivisionError: SimpleNamespace(evaluator=partial(operator.truediv, 1, 0), needed={}),
        MemoryError: SimpleNamespace(evaluator=partial(bytes, 1 << 62), needed={}),
    }
    assert run_contained(TASK, None, PATIENCE_S) is None
    child = contained._thread.process
    with pytest.raises(RuntimeError, match="ZeroDivisionError: division by zero"):
        run_contained(TASK, works[ZeroDivisionError], PATIENCE_S)  # type: ignore[arg-type]
    with pytest.raises(MemoryError):
        run_contained(TASK, works[MemoryError], None)  # type: ignore[arg-type]
    assert contained._thread.process is child


def test_ending_a_child_closes_its_pipe() -> None:
    child = contained._TaskProcess()
    child.end()
    assert child._process.poll() is not None
    with pytest.raises(OSError, match="closed"):
        child.run(TASK, None, PATIENCE_S)
