"""The parent's side of a worker: start it bounded, talk to it with time limits, and leave nothing behind."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from dataclasses import dataclass
from pathlib import Path

from dovetail.backend.endings import ending_of
from dovetail.backends.verisilicon.driver.worker import Message, ProtocolError, read_message, write_message
from dovetail.errors import CompileFailure

_LOG_TAIL_BYTES = 4096
_LOG_MAX_BYTES = 32 << 20
_END_S = 60.0
"""How long a worker may take to end that has closed its pipe: a busy machine writes a dump of its memory first."""
_STARTING = "starting"
SIMULATED_MEMORY_BYTES = 256 << 20
"""Without a bound the simulator touches a pool of 4 GiB when it starts, which takes it 14 seconds."""


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """Bound one worker: wall time of each step, processor time and address space of its whole life.

    A worker of many graphs that holds `kept_bytes` is ended before the next one: the driver frees no graph, and keeps
    500 MB for each kind of shader kernel, which it compiles for 15 s in every process.
    """

    start_s: float = 30.0
    compile_s: float = 600.0
    run_s: float = 600.0
    cpu_seconds: int = 3600
    address_bytes: int = 24 << 30
    kept_bytes: int = 640 << 20


@dataclass(frozen=True, slots=True)
class Launch:
    """What a worker loads: the shim, the SDK's libraries, the simulated part, further environment variables."""

    shim: Path
    sdk: Path
    sdk_name: str
    variables: tuple[tuple[str, str], ...] = ()
    libraries: tuple[Path, ...] = ()
    """Folders of shared libraries; empty: the SDK's and the shim's."""


class WorkerDiedError(Exception):
    """The worker crashed, hung or refused to start; the message says which, with its last log lines."""

    def __init__(self, message: str, failure: CompileFailure) -> None:
        self.failure = failure
        super().__init__(message)


class DriverRefusedError(Exception):
    """The vendor library refused; the worker lives."""


class WorkerProcess:
    """One child process with its own working directory, pipes, log and shared memory."""

    def __init__(self, launch: Launch, limits: DriverLimits, arena_bytes: int) -> None:
        self._limits = limits
        self._folder = tempfile.mkdtemp(prefix="dovetail-vsi-")
        self._log = os.memfd_create("dovetail-vsi-log")
        self._arena = os.memfd_create("dovetail-vsi-tensors")
        child_source, self._sink = os.pipe()
        self._source, child_sink = os.pipe()
        os.ftruncate(self._arena, arena_bytes)
        setup = {
            "parent": os.getpid(),
            "shim": str(launch.shim),
            "source": child_source,
            "sink": child_sink,
            "arena": self._arena,
            "arena_bytes": arena_bytes,
            "address_bytes": limits.address_bytes,
            "cpu_seconds": limits.cpu_seconds,
        }
        script = Path(__file__).with_name("worker.py")
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(script), json.dumps(setup)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                cwd=self._folder,
                env=_environment(launch, self._folder),
                pass_fds=(child_source, child_sink, self._arena),
                start_new_session=True,
            )
        finally:
            os.close(child_source)
            os.close(child_sink)
        self.memory = mmap.mmap(self._arena, arena_bytes) if arena_bytes else None
        descriptors = (self._sink, self._source, self._log, self._arena)
        self._finalizer = weakref.finalize(self, _clean_up, self._child, self._folder, descriptors)
        self.facts = self._receive(limits.start_s, _STARTING)[0]

    @property
    def pid(self) -> int:
        """Return the process id of the worker."""
        return self._child.pid

    @property
    def resident_bytes(self) -> int:
        """Return how much memory the worker holds now; 0 when it has ended."""
        with contextlib.suppress(OSError):
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
        return 0

    @property
    def folder(self) -> Path:
        """Return the worker's working directory; it goes with the worker."""
        return Path(self._folder)

    def ask(self, message: Message, raw: bytes = b"", *, within_s: float, doing: str) -> tuple[Message, bytes]:
        """Return the worker's answer; raise DriverRefusedError or WorkerDiedError."""
        deadline = time.monotonic() + within_s
        try:
            self._send(message, raw, deadline)
        except (BrokenPipeError, ProtocolError, ValueError, OSError) as error:
            raise self._death(doing) from error
        return self._receive(max(0.0, deadline - time.monotonic()), doing)

    def log(self) -> str:
        """Return what the vendor library has printed so far; an endless log is cut."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, min(size, _LOG_MAX_BYTES), 0).decode(errors="replace")

    def log_tail(self, lines: int = 4) -> str:
        """Return the last lines of the log on one line."""
        if not self._finalizer.alive:
            return ""
        size = os.fstat(self._log).st_size
        text = os.pread(self._log, _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES)).decode(errors="replace")
        found = [line.strip() for line in text.splitlines() if line.strip()]
        return " | ".join(found[-lines:])

    def close(self) -> None:
        """End the worker and remove its folder; a second call does nothing."""
        if self.memory is not None:
            self.memory.close()
            self.memory = None
        self._finalizer()

    def _send(self, message: Message, raw: bytes, deadline: float) -> None:
        if self.memory is None and not self._finalizer.alive:
            raise ValueError("closed")
        # The worker reads everything before it works: a pipe that stays full means that it has died or hangs.
        if not select.select([], [self._sink], [], max(0.0, deadline - time.monotonic()))[1]:
            raise ProtocolError("the worker does not read")
        write_message(self._sink, message, raw)

    def _receive(self, within_s: float, doing: str) -> tuple[Message, bytes]:
        ready, _, _ = select.select([self._source], [], [], within_s)
        if not ready:
            tail = self.log_tail()
            self.close()
            raise WorkerDiedError(f"{doing} took longer than {within_s:.0f} s{said(tail)}", _late(doing))
        try:
            answer = read_message(self._source)
        except (ProtocolError, ValueError, OSError) as error:
            raise self._death(doing) from error
        if answer is None:
            raise self._death(doing)
        message, raw = answer
        if message.get("ok") is not True:
            raise DriverRefusedError(f"{message.get('reason', 'no reason given')}{said(self.log_tail())}")
        return message, raw

    def _death(self, doing: str) -> WorkerDiedError:
        tail = self.log_tail()
        try:
            code: int | None = self._child.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        ending = ending_of(code, tail)
        return WorkerDiedError(f"the worker died while {doing}: {ending.cause}{said(tail)}", ending.failure)


def _late(doing: str) -> CompileFailure:
    """Return what a step shows that takes too long: a slow start is the machine's."""
    return CompileFailure.KILLED if doing == _STARTING else CompileFailure.HUNG


def said(tail: str) -> str:
    """Return the log's last lines as the end of a message."""
    return f"; it said: {tail}" if tail else ""


def _environment(launch: Launch, folder: str) -> dict[str, str]:
    """Return the whole environment of a worker: nothing of ours leaks into the vendor library."""
    libraries = [str(path) for path in launch.libraries or (launch.sdk / "lib", launch.shim.parent)]
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "LC_ALL": "C",
        "LD_LIBRARY_PATH": ":".join(libraries),
        "VIVANTE_SDK_DIR": str(launch.sdk),
        "VSIMULATOR_CONFIG": launch.sdk_name,
        "VSIMULATOR_CONTIGUOUS_SIZE": str(SIMULATED_MEMORY_BYTES),
        **dict(launch.variables),
    }


def _clean_up(child: subprocess.Popen[bytes], folder: str, descriptors: tuple[int, ...]) -> None:
    _kill_group(child)
    for descriptor in descriptors:
        os.close(descriptor)
    shutil.rmtree(folder, ignore_errors=True)


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the worker and whatever it started: it leads a process group of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
