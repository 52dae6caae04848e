"""Exporting projects, as far as it goes without the vendor's SDK."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import work

from .conftest import Said, Tiny

Run = Callable[..., Said]


def call(tiny: Tiny, style: str, output: Path) -> list[object]:
    """Return the command."""
    given = ["--model", tiny.model, "--ranges", tiny.ranges]
    return ["export", tiny.plan, *given, "--format", style, "-o", output]


def test_a_slip_in_the_name_is_told(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run(*call(tiny, "ovxlib-projekt", tmp_path / "made"))
    assert said.code == 2
    assert "Did you mean 'ovxlib-project'" in said.err


@pytest.mark.parametrize("style", ["ovxlib-project", "timvx-project"])
def test_a_folder_of_somebody_else_stays(style: str, tiny: Tiny, run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for more in ([], ["--replace"]):
        said = run(*call(tiny, style, tmp_path), *more)
        assert said.code == 2
        assert "stays as it is" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_project_of_ours_is_not_overwritten_by_chance(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    (tmp_path / "project.json").write_text('{"kind": "dovetail-project"}')
    (tmp_path / "main.cpp").write_text("changed by hand")
    said = run(*call(tiny, "ovxlib-project", tmp_path))
    assert said.code == 2
    assert "--replace" in said.err
    assert (tmp_path / "main.cpp").read_text() == "changed by hand"


def test_without_the_sdk_the_way_to_it_is_told(tiny: Tiny, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dovetail.cli", *map(str, call(tiny, "ovxlib-project", tmp_path / "made"))]
    empty = {key: value for key, value in os.environ.items() if key not in ("VIVANTE_SDK_DIR", "TIM_VX_INSTALL_DIR")}
    done = subprocess.run(
        command,
        env={**empty, "XDG_DATA_HOME": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        check=False,
        timeout=work.PATIENCE_S,
    )
    assert done.returncode == 2
    assert "dovetail sdk install verisilicon" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "made").exists()


def test_the_list_of_formats_has_the_projects(run: Run) -> None:
    said = run("formats")
    assert "ovxlib-project" in said.out
    assert "timvx-project" in said.out
