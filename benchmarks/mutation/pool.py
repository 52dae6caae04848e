"""Copies of the repository, and tasks that run tests in them: a process at a time in each copy."""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from mutation.child import Job, run

T = TypeVar("T")

_POLL_S = 0.05
_WALL_S = 900.0
"""A process that has not ended by then sleeps: no selection needs that much processor time."""


@dataclass(frozen=True)
class Slot:
    """A copy of the repository's files and a folder for temporary files beside it."""

    copy: Path
    scratch: Path

    def clear(self) -> None:
        """Remove the temporary files, also those that a test has made unreadable."""
        if self.scratch.exists():
            subprocess.run(["chmod", "-R", "u+rwx", str(self.scratch)], capture_output=True, check=False)
            shutil.rmtree(self.scratch)
        self.scratch.mkdir(parents=True)


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int | None
    """pytest's exit code; None where a signal ended the process."""
    signal: int | None
    """The signal that ended it: SIGXCPU where its processor time was over, SIGKILL where it slept too long."""
    cpu_s: float
    """Its processor time with that of the processes that it waited for."""
    printed: str
    """What it printed."""


Task = Callable[[Slot], Generator[Job, Ended, T]]
"""Work in a slot: yields at least one job, is sent how each ended, returns its result."""


@dataclass(frozen=True)
class _Process(Generic[T]):
    work: Generator[Job, Ended, T]
    slot: Slot
    pid: int
    start_s: float
    printed: Path


def make_slot(root: Path, names: Iterable[str], folder: Path) -> Slot:
    """Copy files of a repository and compile the package.

    The bytecode is checked against the text and not against its date: a mutant may be of the same size and second.
    """
    shutil.rmtree(folder, ignore_errors=True)
    slot = Slot(folder / "tree", folder / "scratch")
    for name in names:
        target = slot.copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target)
    compileall.compile_dir(slot.copy / "src", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    return slot


def tracked_files(root: Path) -> list[str]:
    """Return the files of a working tree that git tracks or would track, in order."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted({name for name in listed.split("\0") if name and (root / name).is_file()})


def run_tasks(slots: Iterable[Slot], tasks: Iterable[Task[T]]) -> Iterator[T]:
    """Run tasks, one in each slot at a time, and yield their results as they end; stops all when closed."""
    free = list(slots)
    waiting = iter(tasks)
    running: list[_Process[T]] = []
    try:
        while True:
            while free and (task := next(waiting, None)) is not None:
                slot = free.pop()
                work = task(slot)
                running.append(_start(work, next(work), slot))
            if not running:
                return
            process, ended = _wait(running)
            running.remove(process)
            try:
                job = process.work.send(ended)
            except StopIteration as stop:
                free.append(process.slot)
                yield stop.value
            else:
                running.append(_start(process.work, job, process.slot))
    finally:
        for process in running:
            _end(process.pid)
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)


def _start(work: Generator[Job, Ended, T], job: Job, slot: Slot) -> _Process[T]:
    slot.clear()
    printed = slot.scratch / "printed.txt"
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _become(job, printed)
    return _Process(work, slot, pid, time.monotonic(), printed)


def _become(job: Job, printed: Path) -> NoReturn:
    """Be the process of a job: in a session of its own, so that all that it starts can be ended with it."""
    code = 3
    try:
        os.setsid()
        out = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(out, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = run(job)
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait(running: list[_Process[T]]) -> tuple[_Process[T], Ended]:
    while True:
        for process in running:
            if time.monotonic() - process.start_s > _WALL_S:
                _end(process.pid)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                _end(pid)
                by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                code = None if by else os.waitstatus_to_exitcode(status)
                printed = process.printed.read_text(encoding="utf-8", errors="replace")
                return process, Ended(code, by, usage.ru_utime + usage.ru_stime, printed)
        time.sleep(_POLL_S)


def _end(pid: int) -> None:
    """End a process and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
