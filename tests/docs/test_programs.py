"""The programs of the explanations and of the how-to about backends run as they stand on the page."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


@pytest.mark.parametrize("page", ["explanation/cosine.md", "explanation/restoring.md"])
def test_a_program_of_an_explanation_holds(page: str) -> None:
    (program,) = blocks(page, "python")
    assert program.count("assert ") >= 2
    exec(program, {"__name__": "page"})


@pytest.mark.slow
def test_the_backend_of_the_page_keeps_the_contract(tmp_path: Path) -> None:
    """In a process of its own: the suite runs as a third party's tests do."""
    program, tests = blocks("how-to/backend.md", "python")
    (entry,) = blocks("how-to/backend.md", "toml")
    points = tomllib.loads(entry)["project"]["entry-points"]["dovetail.backends"]
    assert len(program.splitlines()) <= 110
    assert points == {"minimal": "minimal:backend"}
    (tmp_path / "minimal.py").write_text(program, encoding="utf-8")
    (tmp_path / "test_minimal.py").write_text(tests, encoding="utf-8")
    metadata = tmp_path / "minimal-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: minimal\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[dovetail.backends]\nminimal = minimal:backend\n", encoding="utf-8")
    call = [sys.executable, "-m", "pytest", "-q", "-x", "--rootdir", str(tmp_path), "test_minimal.py"]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 10
