"""A search that is killed goes on where it was: the same plan, and no evaluation twice."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ENTRY = [sys.executable, "-m", "dovetail.cli"]
_INTERRUPTED = """
import functools, os, signal, sqlite3, sys
from dovetail.cli.main import main

# A shell may have it ignored, as it does for what runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
left, number = int(sys.argv.pop(1)), signal.Signals[sys.argv.pop(1)]

class Counting(sqlite3.Connection):
    def execute(self, statement, *values):
        global left
        if "INTO evaluation" in statement:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)
        return super().execute(statement, *values)

sqlite3.connect = functools.partial(sqlite3.connect, factory=Counting)
sys.exit(main())
"""
"""The command, sent a signal as it writes the evaluation of this number down."""


def interrupted(evaluation: int, number: signal.Signals) -> list[str]:
    """Return the beginning of a command that gets a signal."""
    return [sys.executable, "-c", _INTERRUPTED, str(evaluation), number.name]


def command(digits: Path, out: Path, entry: Sequence[str] = ENTRY) -> list[str]:
    """Return the search of the digit detector."""
    return [
        *entry, "tune", str(digits / "digits.onnx"), "--data", str(digits / "eval.npz"),
        "--calib", str(digits / "calib.npz"), "--metric", f"{digits / 'metric.py'}:score", "-o", str(out), "--json",
        "--vendor-seconds", "0",
    ]  # fmt: skip


def evaluations(out: Path) -> dict[tuple[str, str], int]:
    """Return when each evaluation on record was made: its key and how long it took."""
    journal = out / "journal.sqlite"
    if not journal.exists():
        return {}
    database = sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=30)
    try:
        rows = database.execute("SELECT plan, block, elapsed_ns FROM evaluation").fetchall()
    except sqlite3.Error:
        return {}
    finally:
        database.close()
    return {(plan, block): elapsed for plan, block, elapsed in rows}


def finish(call: list[str]) -> dict[str, object]:
    """Run a search to its end."""
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def whole(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], int]:
    """An uninterrupted search, and how many evaluations it made."""
    out = tmp_path_factory.mktemp("whole") / "out"
    return finish(command(digits, out)), len(evaluations(out))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_killed_searches_resume(
    share: float, digits: Path, whole: tuple[dict[str, object], int], tmp_path: Path
) -> None:
    expected, total = whole
    out, at = tmp_path / "out", max(2, round(share * total))
    entry = interrupted(at, signal.SIGKILL)
    done = subprocess.run(command(digits, out, entry), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    before = evaluations(out)
    assert 0 < len(before) < total
    assert not (out / "plan.json").exists()
    found = finish(command(digits, out))
    assert found["plan"] == expected["plan"]
    assert found["culprits"] == expected["culprits"]
    after = evaluations(out)
    assert {key: after[key] for key in before} == before
    assert len(after) == total
    cost, whole_cost = found["cost"], expected["cost"]
    assert isinstance(cost, dict)
    assert isinstance(whole_cost, dict)
    assert cost["recalled_samples"] > 0
    assert cost["fresh_samples"] + cost["recalled_samples"] == whole_cost["fresh_samples"]


@pytest.mark.slow
def test_an_interrupted_search_says_how_to_go_on(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    call = command(digits, out, interrupted(2, signal.SIGINT))
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stdout == ""
    assert done.stderr.startswith("error: interrupted: ")
    assert done.stderr.count("\n") == 1
    assert "journal.sqlite" in done.stderr
