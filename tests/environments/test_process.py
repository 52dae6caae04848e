"""The converter's process: what it says, what it may write, and how it ends."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import needs
import pytest

from dovetail.environments import ConversionJob, EnvironmentState, State, find_environment, process, run_job
from dovetail.errors import LoadError

_WORKERS = {
    "fine": "progress('half', 0.5)\n    return {'file': 'x', 'home': __import__('os').environ.get('SECRET', '')}",
    "reason": "from wording import Refusal\n    raise Refusal('because')",
    "broken": "raise ValueError('odd')",
    "dead": "__import__('os').kill(__import__('os').getpid(), 11)",
    "slow": "__import__('time').sleep(60)",
    "writer": "open(request['place'], 'w').close()",
    "caller": "__import__('socket').create_connection(('127.0.0.1', request['port']), 5)",
    "hungry": "bytearray(1 << 34)",
}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvironmentState:
    """Return an environment whose Python is this one, with workers of the test."""
    folder = tmp_path / "here"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    workers = tmp_path / "workers"
    workers.mkdir()
    for path in process.WORKERS.glob("*.py"):
        (workers / path.name).write_text(path.read_text())
    for name, body in _WORKERS.items():
        (workers / f"{name}.py").write_text(f"def convert(request, progress):\n    {body}\n    return {{}}\n")
    monkeypatch.setattr(process, "WORKERS", workers)
    monkeypatch.setenv("SECRET", "told")
    return EnvironmentState(find_environment("torch"), folder, State.READY)


def _run(state: EnvironmentState, worker: str, folder: Path, limit_s: float = 20.0, **request: object) -> object:
    folder.mkdir(exist_ok=True)
    job = ConversionJob(worker, {"label": "model", **request}, folder, limit_s, memory_bytes=2 << 30)
    return run_job(state, job, lambda _what, _share: None)


def test_an_answer_and_none_of_the_users_variables(state: EnvironmentState, tmp_path: Path) -> None:
    answer = _run(state, "fine", tmp_path / "scratch")
    assert isinstance(answer, dict)
    assert (answer["file"], answer["home"]) == ("x", "")


@pytest.mark.parametrize(
    ("worker", "message"),
    [
        ("reason", "^because$"),
        ("broken", "model: the converter refused it: ValueError: odd"),
        ("dead", "died: signal 11"),
        ("hungry", "MemoryError"),
        ("missing", "missing"),
    ],
)
def test_every_end_has_a_reason(state: EnvironmentState, tmp_path: Path, worker: str, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        _run(state, worker, tmp_path / "scratch")


def test_a_worker_that_hangs_is_stopped(state: EnvironmentState, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"did not end within 0\.5 s") as caught:
        _run(state, "slow", tmp_path / "scratch", 0.5)
    assert caught.value.option == "time_limit"


def _confined(state: EnvironmentState, folder: Path) -> bool:
    answer = _run(state, "fine", folder)
    return isinstance(answer, dict) and bool(answer["confined"])


def test_it_writes_into_its_folder_only(state: EnvironmentState, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    if not _confined(state, scratch):
        needs.without("landlock", "this kernel has none")
    _run(state, "writer", scratch, place=str(scratch / "mine"))
    assert (scratch / "mine").exists()
    with pytest.raises(LoadError, match="PermissionError"):
        _run(state, "writer", scratch, place=str(tmp_path / "yours"))
    assert not (tmp_path / "yours").exists()


def test_it_calls_nobody(state: EnvironmentState, tmp_path: Path) -> None:
    if not _confined(state, tmp_path / "scratch") or tuple(map(int, os.uname().release.split(".")[:2])) < (6, 7):
        needs.without("landlock", "that of this kernel cannot forbid TCP")
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(LoadError, match="PermissionError"):
        _run(state, "caller", tmp_path / "scratch", port=server.getsockname()[1])
