"""A file or folder that the system keeps from a command is said as such, and is no defect."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode, Verb, add_verb

from .conftest import Said, Tiny

LONG = "n" * 300
Run = Callable[..., Said]


@dataclass(frozen=True, slots=True)
class Kept(Verb):
    """End with an error of the system."""

    error: ClassVar[Exception]

    def run(self, screen: Screen) -> Answer:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), ExitCode.BAD_INPUT, ("a/b", "Check who may")),
        (PermissionError(errno.EPERM, "Operation not permitted", b"a/b"), ExitCode.BAD_INPUT, ("a/b", "Check who may")),
        (OSError(errno.EROFS, "Read-only file system", "a"), ExitCode.BAD_INPUT, ("a: ", "another folder")),
        (OSError(errno.ENAMETOOLONG, "File name too long", LONG), ExitCode.BAD_INPUT, ("nnn", "Check the path")),
        (OSError(errno.ELOOP, "Too many levels", "a"), ExitCode.BAD_INPUT, ("a: ", "Check the path")),
        (OSError(errno.ENOSPC, "No space left on device", "a"), ExitCode.BAD_INPUT, ("a: ", "Make room")),
        (PermissionError(errno.EACCES, "Permission denied"), ExitCode.DEFECT, ("unexpected PermissionError",)),
        (OSError(errno.EACCES, "Permission denied", 3), ExitCode.DEFECT, ("unexpected PermissionError",)),
        (OSError(errno.ENOENT, "No such file or directory", "a"), ExitCode.DEFECT, ("unexpected FileNotFoundError",)),
    ],
)
def test_what_the_system_refuses_is_no_defect(
    error: Exception,
    code: ExitCode,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Kept, "error", error, raising=False)
    app = typer.Typer()
    add_verb(app, "kept", Kept)
    with pytest.raises(SystemExit) as ended:
        app([])
    said = capsys.readouterr().err
    assert ended.value.code == code
    assert said.count("\n") == 1
    for word in words:
        assert word in said


def test_names_that_are_too_long(tiny: Tiny, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tune = ("tune", tiny.model, "--data")
    calls = [
        (*tune, LONG, "-o", "x"),
        (*tune, tiny.data, "-o", LONG),
        ("report", LONG),
        ("run", LONG, "--data", tiny.data),
        ("run", tiny.bundle, "--data", tiny.data, "--save", LONG),
        ("bundle", "pack", tiny.bundle, "-o", LONG),
        ("diff", LONG, LONG),
        ("check", LONG, "--model", tiny.model, "--data", tiny.data),
    ]
    for call in calls:
        said = run(*call)
        assert (said.code, said.err.count("\n")) == (2, 1), call
        assert "File name too long" in said.err, call
        assert "Check the path" in said.err, call
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix" or shutil.which("setpriv") is None, reason="it takes permissions away")
def test_folders_of_another_person(tiny: Tiny, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    shutil.copy(tiny.data, locked / "d.npz")
    locked.chmod(0)
    # The administrator reads everything: whatever lets root through is taken away.
    powers = "-dac_override,-dac_read_search,-fowner"
    command = ["setpriv", f"--bounding-set={powers}", f"--inh-caps={powers}"] if os.geteuid() == 0 else []
    command += [sys.executable, "-m", "dovetail.cli"]
    try:
        for call in (
            ("calibrate", tiny.model, "--data", locked / "d.npz", "-o", tmp_path / "r.json"),
            ("run", locked / "bundle", "--data", tiny.data),
            ("check", locked / "plan.json", "--model", tiny.model, "--data", tiny.data),
            ("bundle", "pack", tiny.bundle, "-o", locked / "b.dvb"),
        ):
            done = subprocess.run([*command, *map(str, call)], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
            assert "locked" in done.stderr
            assert "Permission denied" in done.stderr
            assert "unexpected" not in done.stderr
    finally:
        locked.chmod(0o700)
