"""Run a converter in its environment: another process with limits, which can write into one folder only."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dovetail.environments.install import Progress
from dovetail.environments.location import EnvironmentState
from dovetail.errors import LoadError

WORKERS = Path(__file__).with_name("workers")
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")
_QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "GLOG_minloglevel": "2",
    "OMP_NUM_THREADS": "2",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    # What torch.load then refuses is every pickle that is more than tensors, also where torch itself would allow it.
    "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1",
}
_MAX_LINE_BYTES = 1 << 20
_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ConversionJob:
    """What to run: a worker's file name, its request as plain data, its folder, and how long it may take.

    The worker may write into `folder` and nowhere else; it sees none of the user's environment variables.
    """

    worker: str
    request: Mapping[str, object]
    folder: Path
    limit_s: float
    memory_bytes: int = 24 << 30


class _Refused(Exception):
    """The worker gave a reason."""


def run_job(state: EnvironmentState, job: ConversionJob, progress: Progress) -> Mapping[str, object]:
    """Return a worker's answer; raise LoadError with its reason, or with how it ended where it gave none."""
    name = state.environment.name
    source, sink = os.pipe()
    log = job.folder / "log.txt"
    request = {**job.request, "folder": str(job.folder), "cpu_s": 60 + int(job.limit_s * 8), "memory": job.memory_bytes}
    (job.folder / "request.json").write_text(json.dumps(request))
    try:
        with log.open("wb") as output:
            child = subprocess.Popen(
                [str(state.python), "-I", "-B", str(WORKERS / "main.py"), job.worker, str(job.folder), str(sink)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_variables(job.folder),
                cwd=job.folder,
                pass_fds=(sink,),
                start_new_session=True,
            )
    except OSError as error:
        os.close(source)
        os.close(sink)
        raise LoadError(
            f"the converter of environment '{name}' cannot be started: {error.strerror}.",
            hint=f"Make it anew: dovetail env install {name}.",
            option="again",
        ) from error
    os.close(sink)
    try:
        return _listen(source, child, job, progress)
    except TimeoutError as error:
        raise LoadError(
            f"the converter of environment '{name}' did not end within {job.limit_s:g} s and was stopped.",
            hint="Give it more time, or convert the model to ONNX elsewhere.",
            option="time_limit",
        ) from error
    except _Refused as error:
        raise LoadError(str(error)) from None
    except ValueError as error:
        raise LoadError(f"the converter of environment '{name}' died: {_last_words(child, log)}.") from error
    finally:
        os.close(source)
        _end(child)


def _variables(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, **_QUIET, "HOME": str(folder), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder)}


def _listen(
    source: int, child: subprocess.Popen[bytes], job: ConversionJob, progress: Progress
) -> Mapping[str, object]:
    """Read the worker's lines until its answer; ValueError says that it ended without one."""
    deadline = time.monotonic() + job.limit_s
    pending = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            raise TimeoutError
        block = os.read(source, 1 << 16)
        if not block:
            raise ValueError("no answer")
        pending += block
        if len(pending) > _MAX_LINE_BYTES:
            raise ValueError("a line without an end")
        *lines, pending = pending.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("a message is not an object")
            if "refused" in message:
                raise _Refused(str(message["refused"]))
            if "done" in message:
                done = message["done"]
                return done if isinstance(done, dict) else {}
            progress(str(message.get("step", "")), float(message.get("share", 0.0)))


def _last_words(child: subprocess.Popen[bytes], log: Path) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(5.0)
    code = child.poll()
    how = "it was stopped" if code is None else f"exit code {code}" if code >= 0 else f"signal {-code}"
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _TAIL_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        lines = []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{how}; its last line was '{last[:300]}'" if last else how


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.2)
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
