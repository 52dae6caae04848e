"""Backends in a worker process: a compiler or a driver that crashes or hangs takes only the worker with it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.backend.endings import ending_of
from dovetail.backend.frames import (
    BrokenFrameError,
    Frame,
    arrays_from_bytes,
    arrays_to_bytes,
    read_frame,
    write_frame,
)
from dovetail.backend.protocols import Blob, CompileOptions, ExecutableAbilities, Signature
from dovetail.backend.worker import options_to
from dovetail.errors import CompileError, CompileFailure, DeviceError, DeviceLost
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.storage import graph_to_bytes
from dovetail.ir.text import print_type

_TAIL_BYTES = 4096
_STARTING = "starting"
_END_S = 60.0
"""How long a process may take to end that has closed its pipe: a busy machine writes a dump of its memory first."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Bound the steps of a worker in seconds."""

    start_s: float = 60.0
    compile_s: float = 600.0
    load_s: float = 120.0
    run_s: float = 60.0


class WorkerLostError(Exception):
    """The worker crashed or hung; the message says which."""

    def __init__(self, message: str, failure: CompileFailure) -> None:
        self.failure = failure
        super().__init__(message)


class WorkerRefusedError(Exception):
    """The backend refused; the worker lives."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint or None
        super().__init__(message)


class Worker:
    """One child process that runs backends; it is started at the first question and after every loss."""

    def __init__(self, limits: WorkerLimits | None = None) -> None:
        self.limits = limits or WorkerLimits()
        self._child: _Child | None = None

    def ask(self, frame: Frame, within_s: float, doing: str) -> Frame:
        """Return the answer; raise WorkerRefusedError or WorkerLostError."""
        if self._child is None:
            self._child = _Child()
            self._receive(self.limits.start_s, _STARTING)
        try:
            write_frame(self._child.sink, frame)
        except OSError as error:
            raise self._lost(doing) from error
        return self._receive(within_s, doing)

    def close(self) -> None:
        """End the child; a second call does nothing."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _receive(self, within_s: float, doing: str) -> Frame:
        assert self._child is not None
        if not _answers(self._child.source, within_s):
            tail = self._child.tail()
            self.close()
            # A slow start is the machine's.
            failure = CompileFailure.KILLED if doing == _STARTING else CompileFailure.HUNG
            raise WorkerLostError(f"it did not end {doing} within {within_s:g} s{tail}", failure)
        try:
            answer = read_frame(self._child.source)
        except (BrokenFrameError, OSError) as error:
            raise self._lost(doing) from error
        if answer is None:
            raise self._lost(doing)
        if answer.header.get("ok") is not True:
            raise WorkerRefusedError(answer.text("message"), answer.text("hint"))
        return answer

    def _lost(self, doing: str) -> WorkerLostError:
        assert self._child is not None
        code, tail = self._child.code(), self._child.tail()
        self.close()
        ending = ending_of(code, tail)
        return WorkerLostError(f"it crashed while {doing} ({ending.cause}){tail}", ending.failure)


def _answers(source: int, within_s: float) -> bool:
    """Wait for the other end of a pipe to write or to close it; tell whether it did."""
    return bool(select.select([source], [], [], within_s)[0])


class _Child:
    """Own the process, its pipes and its log."""

    def __init__(self) -> None:
        theirs_in, self.sink = os.pipe()
        self.source, theirs_out = os.pipe()
        self._log = os.memfd_create("dovetail-worker-log")
        program = "import sys; from dovetail.backend.worker import serve; serve(int(sys.argv[1]), int(sys.argv[2]))"
        # What can be imported here can be imported there: a backend may live anywhere on the path.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(item for item in sys.path if item)}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, str(theirs_in), str(theirs_out)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(theirs_in, theirs_out),
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.end = weakref.finalize(self, _end, self._process, (self.sink, self.source, self._log))

    def code(self) -> int | None:
        """Return the exit code of the process; None when it stopped answering and does not end."""
        try:
            return self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            return None

    def tail(self) -> str:
        """Return the last lines of what it printed, as the end of a message."""
        size = os.fstat(self._log).st_size
        text = os.pread(self._log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f"; it said: {' | '.join(lines[-3:])}" if lines else ""


def _end(process: subprocess.Popen[bytes], descriptors: tuple[int, ...]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for descriptor in descriptors:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class CompilerPlace:
    """A backend and the target that it serves, by their names."""

    backend: str
    target: str


def compile_contained(worker: Worker, place: CompilerPlace, graph: Graph, options: CompileOptions) -> Blob:
    """Return the blob that a backend makes for a target in a worker.

    Raises CompileError with the backend's reason, or saying that its compiler crashed or hung.
    """
    header = {"do": "compile", "backend": place.backend, "target": place.target, "options": options_to(options)}
    try:
        answer = worker.ask(Frame(header, graph_to_bytes(graph)), worker.limits.compile_s, "compiling")
    except WorkerRefusedError as error:
        raise CompileError(str(error), hint=error.hint) from error
    except WorkerLostError as error:
        raise CompileError(f"the compiler failed: {error}.", failure=error.failure) from error
    return Blob(answer.text("format"), answer.payload)


@dataclass(slots=True)
class ContainedExecutable:
    """Run a blob in a worker; a crash or a run over the limit is a DeviceLost."""

    worker: Worker
    where: str
    number: int
    _time_ns: tuple[int, int] = field(default=(0, 0))

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return what the backend returned."""
        if self.number < 0:
            raise DeviceError(f"{self.where}: the executable is closed.")
        start = time.perf_counter_ns()
        facts, payload = arrays_to_bytes(inputs)
        frame = Frame({"do": "run", "number": self.number, "taps": list(taps), "arrays": facts}, payload)
        sent = time.perf_counter_ns()
        answer = ask_device(self.worker, self.where, frame, self.worker.limits.run_s)
        received = time.perf_counter_ns()
        try:
            outputs = arrays_from_bytes(answer.header.get("arrays"), answer.payload)
        except BrokenFrameError as error:
            raise DeviceLost(f"{self.where}: {error}.") from error
        self._time_ns = sent - start, time.perf_counter_ns() - received
        return outputs

    def close(self) -> None:
        """End the worker."""
        self.number = -1
        self.worker.close()

    def abilities(self) -> ExecutableAbilities:
        """Return that it tells what packing and unpacking the tensors took."""
        return ExecutableAbilities(transfer_ns=lambda: self._time_ns)


def load_contained(place: CompilerPlace, blob: Blob, signature: Signature, limits: WorkerLimits) -> ContainedExecutable:
    """Return a blob loaded in a worker of its own. Raises DeviceError."""
    worker = Worker(limits)
    header = {
        "do": "load",
        "backend": place.backend,
        "target": place.target,
        "format": blob.format,
        "inputs": {key: print_type(kind) for key, kind in signature.inputs.items()},
        "outputs": {key: print_type(kind) for key, kind in signature.outputs.items()},
    }
    try:
        answer = ask_device(worker, place.target, Frame(header, blob.payload), limits.load_s)
    except DeviceError:
        worker.close()
        raise
    return ContainedExecutable(worker, place.target, int(answer.text("number")))


_DOING = {"load": "loading", "run": "running"}


def ask_device(worker: Worker, where: str, frame: Frame, within_s: float) -> Frame:
    """Return the answer to a frame; raise DeviceError, or DeviceLost for a crash or a hang."""
    try:
        return worker.ask(frame, within_s, _DOING[frame.text("do")])
    except WorkerRefusedError as error:
        raise DeviceError(f"{where}: {error}", hint=error.hint) from error
    except WorkerLostError as error:
        raise DeviceLost(
            f"{where}: the device was lost: {error}.", hint="Open the session again, or place these nodes elsewhere."
        ) from error
