"""The doctor names what is missing and what to do."""

from __future__ import annotations

import importlib.util
import os
from importlib import metadata

import pytest

from dovetail.backend import registry
from dovetail.errors import DovetailError
from dovetail.sdk import Health, build, examine


def test_a_machine_without_anything_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda _name: None)
    checks = {check.name: check for check in examine()}
    assert checks["VeriSilicon SDK"].health is Health.MISSING
    assert "dovetail sdk install verisilicon" in checks["VeriSilicon SDK"].advice
    assert checks["C++ compiler"].health is Health.MISSING
    assert "g++" in checks["C++ compiler"].advice
    assert checks["shim sources"].health is Health.GOOD


def test_every_check_that_is_not_good_gives_a_reason() -> None:
    for check in examine(lambda: "seen"):
        assert check.found
        assert "\n" not in check.found + check.advice


def test_a_missing_sdk_runs_no_test() -> None:
    def never() -> str:
        raise DovetailError("ran")

    assert "self-test" not in {check.name for check in examine(never)}


def test_versions_and_the_processor_are_said() -> None:
    found = {check.name: check.found for check in examine()}
    assert f"dovetail {metadata.version('dovetail')}" in found["versions"]
    assert f"numpy {metadata.version('numpy')}" in found["versions"]
    assert found["processor"].startswith(f"{os.cpu_count()} processors; ")


def test_a_missing_package_comes_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "openvino" else whole(name, *more)
    )
    registry.backend.cache_clear()
    try:
        check = next(check for check in examine() if check.name == "backend openvino")
    finally:
        registry.backend.cache_clear()
    assert check.health is Health.MISSING
    assert check.advice == "pip install 'dovetail[openvino]'"
