"""Making environments, with pip's part played by a package that lies on this disc."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from dovetail.environments import ENVIRONMENTS, Environment, State, find_environment, make_environment, state_of
from dovetail.environments.install import remove_environment
from dovetail.errors import DovetailError

_HERE = sys.version_info[:2]


@dataclass(frozen=True, slots=True)
class _Local(Environment):
    """An environment whose pins lie in a folder of the test."""

    place: Path = Path()

    @property
    def pins(self) -> Path:
        return self.place / "pins.txt"


def _wheel(folder: Path, version: str) -> None:
    info = f"tinything-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tinything-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr("tinything.py", f"VERSION = '{version}'\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinything\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Local:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("DOVETAIL_ENV_INSTALL", raising=False)
    for version in ("1.0", "2.0"):
        _wheel(tmp_path, version)
    (tmp_path / "pins.txt").write_text("tinything==1.0\n")
    return _Local("tiny", "nothing", (_HERE,), 1 << 20, place=tmp_path)


def _version(environment: Environment) -> str:
    python = state_of(environment).python
    call = [str(python), "-I", "-c", "import tinything; print(tinything.VERSION)"]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_made_once_made_again_when_its_pins_change_and_removed(local: _Local) -> None:
    steps: list[str] = []
    assert state_of(local).state is State.ABSENT
    made = make_environment(local, lambda what, _share: steps.append(what))
    assert made.state is State.READY
    assert _version(local) == "1.0"
    assert steps
    steps.clear()
    make_environment(local, lambda what, _share: steps.append(what))
    assert steps == []
    local.pins.write_text("tinything==2.0\n")
    assert state_of(local).state is State.OUTDATED
    make_environment(local, lambda _what, _share: None)
    assert _version(local) == "2.0"
    assert remove_environment(local)
    assert state_of(local).state is State.ABSENT
    assert not remove_environment(local)
    left = [path.name for path in made.folder.parent.iterdir() if path.name != ".tiny.lock"]
    assert left == []


@pytest.mark.slow
def test_what_fails_leaves_nothing_and_keeps_what_was_there(local: _Local) -> None:
    make_environment(local, lambda _what, _share: None)
    local.pins.write_text("tinything==3.0\n")
    with pytest.raises(DovetailError, match=r"cannot be made.*tinything==3\.0"):
        make_environment(local, lambda _what, _share: None)
    assert state_of(local).state is State.OUTDATED
    assert _version(local) == "1.0"
    names = sorted(path.name for path in state_of(local).folder.parent.iterdir())
    assert names == [".tiny.lock", "tiny"]


def test_a_python_that_is_not_here(local: _Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    strange = _Local("tiny", "nothing", ((3, 4),), 1 << 20, place=local.place)
    with pytest.raises(DovetailError, match=r"needs Python 3\.4"):
        make_environment(strange, lambda _what, _share: None)


def test_no_space(local: _Local) -> None:
    huge = _Local("tiny", "nothing", (_HERE,), 1 << 60, place=local.place)
    with pytest.raises(DovetailError, match="MiB free"):
        make_environment(huge, lambda _what, _share: None)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(DovetailError, match="Did you mean 'torch'"):
        find_environment("torsch")


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: one.name)
def test_every_package_is_pinned(environment: Environment) -> None:
    assert environment.packages
    assert all(item.count("==") == 1 for item in environment.packages)
