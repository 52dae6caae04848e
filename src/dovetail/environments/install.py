"""Make an environment: a venv in the user's data folder, filled by pip from pinned requirements."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.environments.catalogue import Environment
from dovetail.environments.location import RECORD, EnvironmentState, State, folder_of, python_of, state_of
from dovetail.errors import DovetailError
from dovetail.sdk.download import pip_reason

Progress = Callable[[str, float], None]
"""Called with what is being done and the share that is done, 0 to 1."""

INSTALL_LIMIT_S = 3600.0
_UNWANTED = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_USER", "PIP_PREFIX", "PIP_ROOT", "VIRTUAL_ENV")
"""Variables that would send packages into, or take packages from, the user's own environment."""
_LOG_LINES = 400


def make_environment(environment: Environment, progress: Progress, *, again: bool = False) -> EnvironmentState:
    """Return an environment that is ready, making it where it is not; raise DovetailError where it cannot be made."""
    state = state_of(environment)
    if state.state is State.READY and not again:
        return state
    if os.environ.get("DOVETAIL_ENV_INSTALL", "1") == "0":
        raise DovetailError(
            f"environment '{environment.name}' is not there, and DOVETAIL_ENV_INSTALL=0 forbids to make it.",
            hint=f"Run 'dovetail env install {environment.name}' without that variable.",
        )
    with _locked(state.folder):
        state = state_of(environment)
        if state.state is State.READY and not again:
            return state
        _check_space(environment, state.folder.parent)
        _build(environment, progress)
    return state_of(environment)


def remove_environment(environment: Environment) -> bool:
    """Remove an environment; return whether there was one."""
    folder = folder_of(environment)
    if not folder.exists():
        return False
    with _locked(folder):
        # Out of sight first: a removal that is cut short must not leave half an environment behind.
        aside = Path(tempfile.mkdtemp(prefix=".removed-", dir=folder.parent))
        folder.rename(aside / folder.name)
        shutil.rmtree(aside, ignore_errors=True)
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time make or remove an environment."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f".{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise DovetailError(
            f"{folder}: cannot be written: {error.strerror}.", hint="Set XDG_DATA_HOME to a folder that can be."
        ) from error


def _check_space(environment: Environment, folder: Path) -> None:
    # pip unpacks what it has downloaded: both are on the disc for a moment.
    needed = environment.size_bytes * 3 // 2
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DovetailError(
            f"{folder} has {free >> 20} MiB free; making environment '{environment.name}' needs {needed >> 20} MiB.",
            hint="Free some space, or set XDG_DATA_HOME to a folder on another disc.",
        )


def _build(environment: Environment, progress: Progress) -> None:
    folder = folder_of(environment)
    base = _find_python(environment)
    scratch = Path(tempfile.mkdtemp(prefix=f".making-{environment.name}-", dir=folder.parent))
    try:
        progress(f"making environment '{environment.name}'", 0.0)
        built = scratch / environment.name
        _run([base, "-m", "venv", str(built)], scratch, lambda _line: None, environment)
        _fill(environment, built, scratch, progress)
        record = {"digest": environment.digest, "packages": environment.packages}
        (built / RECORD).write_text(json.dumps(record) + "\n")
        if folder.exists():
            folder.rename(scratch / "before")
        built.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fill(environment: Environment, folder: Path, scratch: Path, progress: Progress) -> None:
    packages = environment.packages
    seen = 0

    def hear(line: str) -> None:
        nonlocal seen
        word, _, rest = line.strip().partition(" ")
        if word == "Collecting":
            seen += 1
            name = rest.split("==")[0].split(" ")[0]
            progress(f"making environment '{environment.name}': {name}", min(seen / (len(packages) + 1), 0.95))
        elif line.startswith("Installing collected"):
            progress(f"making environment '{environment.name}': installing", 0.96)

    command = [
        *(str(python_of(folder)), "-m", "pip", "install", "--no-input", "--only-binary=:all:"),
        *("--disable-pip-version-check", "--progress-bar", "off", "-r", str(environment.pins)),
        *(() if environment.resolve else ("--no-deps",)),
    ]
    _run(command, scratch, hear, environment)


def _find_python(environment: Environment) -> str:
    if sys.version_info[:2] in environment.pythons:
        return sys.executable
    for major, minor in reversed(environment.pythons):
        for found in _pythons(f"{major}.{minor}"):
            if _runs(found):
                return found
    wanted = " or ".join(f"{major}.{minor}" for major, minor in environment.pythons)
    raise DovetailError(
        f"environment '{environment.name}' needs Python {wanted}; this is {sys.version_info[0]}.{sys.version_info[1]}, "
        "and no other is on the PATH.",
        hint="Install one of them beside this Python.",
    )


def _pythons(version: str) -> Iterator[str]:
    """Yield the interpreters of a version that may be here: on the PATH, and where pyenv keeps them."""
    found = shutil.which(f"python{version}")
    if found:
        yield found
    yield from (str(path) for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True))


def _runs(python: str) -> bool:
    """Tell whether an interpreter starts: one on the PATH may stand for a version that is not chosen there."""
    try:
        done = subprocess.run(
            [python, "-c", ""], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _run(command: list[str], scratch: Path, hear: Callable[[str], None], environment: Environment) -> None:
    """Run a command to its end; raise DovetailError with the reason when it fails or takes too long."""
    variables = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    # Partial downloads lie on the disc that will hold the result.
    variables |= {"TMPDIR": str(scratch), "PYTHONNOUSERSITE": "1"}
    lines: list[str] = []
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=variables,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise DovetailError(f"{command[0]} cannot be started: {error.strerror}.") from error
    stop = threading.Timer(INSTALL_LIMIT_S, lambda: _kill(child))
    stop.start()
    try:
        for line in child.stdout or ():
            lines = [*lines[-_LOG_LINES:], line]
            hear(line)
        code = child.wait()
    finally:
        stop.cancel()
        _kill(child)
        if child.stdout is not None:
            child.stdout.close()
    if code != 0:
        raise DovetailError(
            f"environment '{environment.name}' cannot be made: {pip_reason(''.join(lines))}.",
            hint="Check the network and pip's index, then run 'dovetail env install "
            f"{environment.name}'; or convert the model to ONNX elsewhere.",
        )


def _kill(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
