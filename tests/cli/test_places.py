"""A file or folder that the system keeps from a command is said as such, and is no defect."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import needs
import numpy as np
import pytest
from PIL import Image

from dovetail.cli.verb import ExitCode

from .conftest import Said, Tiny

LONG = "n" * 300
Run = Callable[..., Said]


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
    error: Exception, code: ExitCode, words: tuple[str, ...], failing: Callable[[Exception], Said]
) -> None:
    said = failing(error)
    assert (said.code, said.err.count("\n")) == (code, 1)
    for word in words:
        assert word in said.err


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


def test_folders_of_another_person(tiny: Tiny, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    shutil.copy(tiny.data, locked / "d.npz")
    arrays, pictures = tmp_path / "arrays", tmp_path / "pictures"
    kept = (locked, arrays / "x", pictures / "one")
    for folder in kept[1:]:
        folder.mkdir(parents=True)
    (arrays / "y").mkdir()
    np.save(arrays / "y" / "1.npy", np.zeros(4))
    Image.new("RGB", (8, 8)).save(pictures / "seen.png")
    for folder in kept:
        folder.chmod(0)
    # The administrator reads everything: whatever lets root through is taken away.
    powers = "-dac_override,-dac_read_search,-fowner"
    command = [sys.executable, "-m", "dovetail.cli"]
    if os.geteuid() == 0:
        command = [needs.program("setpriv", "setpriv"), f"--bounding-set={powers}", f"--inh-caps={powers}", *command]
    try:
        for call in (
            ("calibrate", tiny.model, "--data", locked / "d.npz", "-o", tmp_path / "r.json"),
            ("calibrate", tiny.model, "--data", locked, "-o", tmp_path / "r.json"),
            ("calibrate", tiny.model, "--data", arrays, "-o", tmp_path / "r.json"),
            ("calibrate", tiny.model, "--data", pictures, "-o", tmp_path / "r.json"),
            ("run", locked / "bundle", "--data", tiny.data),
            ("check", locked / "plan.json", "--model", tiny.model, "--data", tiny.data),
            ("bundle", "pack", tiny.bundle, "-o", locked / "b.dvb"),
        ):
            done = subprocess.run([*command, *map(str, call)], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
            assert any(str(folder) in done.stderr for folder in kept), done.stderr
            assert "Permission denied" in done.stderr
            assert "unexpected" not in done.stderr
    finally:
        for folder in kept:
            folder.chmod(0o700)
