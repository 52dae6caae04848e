"""dovetail env, and the options that load models of other frameworks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.environments import ENVIRONMENTS

from .conftest import Said, Tiny

Run = Callable[..., Said]


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("DOVETAIL_ENV_INSTALL", "0")


def test_list_says_what_is_absent_and_what_it_would_take(run: Run) -> None:
    said = run("env", "list", "--json")
    assert said.code == 0
    found = {item["name"]: item for item in json.loads(said.out)["environments"]}
    assert set(found) == {item.name for item in ENVIRONMENTS}
    assert all(item["state"] == "absent" and item["needs_bytes"] > 1 << 20 for item in found.values())


def test_remove_of_what_is_not_there_and_unknown_names(run: Run) -> None:
    said = run("env", "remove", "torch", "--converted", "--json")
    assert json.loads(said.out) == {"removed": [], "converted_bytes": 0}
    refused = run("env", "install", "tensorflo")
    assert refused.code == 2
    assert "Did you mean 'tensorflow'?" in refused.err


def test_a_model_whose_environment_may_not_be_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(b"\n\x00")
    said = run("tune", tmp_path / "model.pb", "--data", tmp_path, "--target", "vsi:v853", "--metric", "top1")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "DOVETAIL_ENV_INSTALL=0" in said.err


def test_cutting_a_model_that_is_read_directly_is_refused(run: Run, tiny: Tiny) -> None:
    said = run("inspect", tiny.model, "--outputs", "t")
    assert said.code == 2
    assert "TensorFlow" in said.err


def test_run_and_compare_take_shapes(run: Run, tiny: Tiny) -> None:
    fixed = run("run", tiny.model, "--data", tiny.data, "--shape", "x=1,4", "--samples", "2", "--json")
    assert fixed.code == 0
    wrong = run("run", tiny.model, "--data", tiny.data, "--shape", "x=1,5", "--samples", "2")
    assert wrong.code == 2
    assert "it cannot be [1, 5]" in wrong.err
    told = run("compare", tiny.model, tiny.bundle, "--data", tiny.data, "--shape", "y=1,4")
    assert told.code == 2
