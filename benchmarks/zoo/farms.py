"""A farm of boards on this machine: scheduler, servers, their workers and simulators, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

PATIENCE_S = 240.0
"""What starts in seconds may take so long on a busy machine."""
_PORT = re.compile(rb"serving .*grpc://[^ \n]*:(\d+)")
"""Where a server says that it serves."""


@dataclass
class FarmSite:
    """The processes of a farm, by name: a board `b` has the server `b` and the worker `b.worker`."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def scheduler(self) -> str:
        """Return the file of the scheduler."""
        return str(self.folder / "scheduler.json")

    def start_scheduler(self) -> None:
        """Start the scheduler, and wait for it."""
        words = ("--scheduler-file", self.scheduler, "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self._start("scheduler", "-m", "distributed.cli.dask_scheduler", *words)
        self.until(lambda: Path(self.scheduler).is_file(), "scheduler")

    def start_server(self, board: str) -> None:
        """Start a board's server, at the port that it had before, or at one that the system gives it."""
        (self.folder / board).mkdir(exist_ok=True)
        options = ("--port", "0", "--grpc-port", str(self.ports.get(board, 0)))
        self._start(board, "-m", "dovetail.cli", "serve", str(self.folder / board), *options)

    def start_worker(self, board: str, process: str = "") -> None:
        """Start the worker of a board, whose server was started; `process` is the name of a second one."""
        self.until(lambda: _PORT.search(self.said(board)) is not None, board)
        found = _PORT.search(self.said(board))
        assert found is not None
        self.ports[board] = int(found[1])
        words = ("farm", "worker", self.scheduler, "--on", f"grpc://127.0.0.1:{self.ports[board]}", "--name", board)
        self._start(process or f"{board}.worker", "-m", "dovetail.cli", *words)

    def start_simulator(self, name: str) -> None:
        """Start a worker that simulates."""
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--resources", "sim=1", "--name", name)
        local = ("--local-directory", str(self.folder), "--host", "127.0.0.1")
        self._start(name, "-m", "distributed.cli.dask_worker", "--scheduler-file", self.scheduler, *words, *local)

    def add_boards(self, *boards: str) -> None:
        """Start boards with their workers, and wait until all have joined."""
        for board in boards:
            self.start_server(board)
        for board in boards:
            self.start_worker(board)
        for board in boards:
            self.until(partial(self._has_joined, board), f"{board}.worker")

    def revive(self, *boards: str) -> None:
        """Start again what was killed of some boards."""
        for board in boards:
            if board not in self.processes:
                self.start_server(board)
        for board in boards:
            if f"{board}.worker" not in self.processes:
                self.start_worker(board)

    def _has_joined(self, board: str) -> bool:
        return b"is in the farm" in self.said(f"{board}.worker")

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def said(self, name: str) -> bytes:
        """Return what a process has said since it was last started."""
        return (self.folder / f"{name}.log").read_bytes()

    def until(self, is_so: Callable[[], bool], name: str) -> None:
        """Wait until something is so; raise AssertionError where a process ends before, or it takes too long."""
        limit = time.monotonic() + PATIENCE_S
        while not is_so():
            ended = self.processes[name].poll() if name in self.processes else None
            assert ended is None, f"{name} ended with {ended}: {self.said(name)[-2000:]!r}"
            assert time.monotonic() < limit, f"waited too long for {name}"
            time.sleep(0.05)

    def close(self) -> None:
        """Kill what is left."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(PATIENCE_S)

    def _start(self, name: str, *words: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *words], stdout=log, stderr=log, cwd=self.folder, env=environment
            )


@contextmanager
def farm_site(folder: Path) -> Iterator[FarmSite]:
    """Have a farm with a scheduler and nothing else, until the body ends."""
    site = FarmSite(folder)
    try:
        site.start_scheduler()
        yield site
    finally:
        site.close()
