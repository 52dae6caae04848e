"""What an earlier run showed is left out of a later one, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import once

_SUPPORT = Path(once.__file__).parent
_PURE = """
import pytest

def test_plain(): pass

@pytest.mark.parametrize("one", [1, 2])
def test_of(one): pass
"""
_MORE = """
import pytest

def test_before(): pass

def test_without(): pytest.skip("a part: it is not here")
"""
_FAILS = """
def test_before(): pass

def test_wrong(): assert False
"""
_FILES = {
    "tests/ir/test_pure.py": _PURE,
    "tests/cli/test_finds_parts.py": _PURE,
    "tests/ir/test_skips.py": _MORE,
    "tests/ir/test_fails.py": _FAILS,
}


def _pytest(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "once", "-p", "no:cacheprovider", "--import-mode=importlib", "-v"]
    environment = {**os.environ, "PYTHONPATH": str(_SUPPORT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def _ran(output: str) -> set[str]:
    return {line.split()[0] for line in output.splitlines() if " PASSED " in line or " FAILED " in line}


def test_only_what_passed_beside_nothing_that_was_skipped_is_left_out(tmp_path: Path) -> None:
    for name, content in _FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    first = _ran(_pytest(tmp_path, "--passed-to", "passed.txt"))
    again = _ran(_pytest(tmp_path, "--passed-in", "passed.txt"))
    assert first - again == {f"tests/ir/test_pure.py::{test}" for test in ("test_plain", "test_of[1]", "test_of[2]")}
    assert len(again) == 6
    assert "no tests ran" not in _pytest(tmp_path, "--passed-in", "passed.txt", "tests/cli")
